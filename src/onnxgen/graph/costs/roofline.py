"""The roofline of a device: how long work takes when bandwidth or arithmetic is the bound."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.graph.costs.cost import Cost


@dataclass(frozen=True, slots=True)
class Roofline:
    """Facts of a device.

    Attributes:
        bytes_per_s: Bandwidth of main memory.
        operations_per_s: Arithmetic peak in float32.
        launch_s: Fixed time of one kernel call.
    """

    bytes_per_s: float
    operations_per_s: float
    launch_s: float

    def seconds(self, cost: Cost) -> float | None:
        """The least time for that work; None where the cost is not known."""
        if cost.bytes_read is None or cost.bytes_written is None or cost.operations is None:
            return None
        bytes_s = (cost.bytes_read + cost.bytes_written) / self.bytes_per_s
        return self.launch_s + max(bytes_s, cost.operations / self.operations_per_s)
