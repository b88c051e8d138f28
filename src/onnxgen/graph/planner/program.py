"""What is planned: one graph as calls of kernels over numbered values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import ValueType


@dataclass(frozen=True, slots=True)
class Call:
    """One line of a plan.

    Attributes:
        spec: The node; for copies between devices a description in the same form.
        kernel: What runs it.
        provider: Name of the provider, for people.
        device: Where its outputs live.
        inputs: Value numbers in the order in which the kernel takes them, outer values last; None where left out.
        outputs: Value numbers, as many as the node has outputs.
        takes_run: Whether the kernel takes the state of the run (cancellation, trace) as its first argument.
    """

    spec: NodeSpec
    kernel: Kernel
    provider: str
    device: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    takes_run: bool = False


@dataclass(frozen=True, slots=True)
class NamedValue:
    """A value: its name in the model and what is believed of its type."""

    name: str
    type: ValueType


@dataclass(frozen=True, slots=True)
class Program:
    """A graph in execution order. Value numbers index ``values``.

    Attributes:
        name: The graph's name, for messages.
        values: Every value.
        inputs: What a run is given, in order; for inner graphs the outer values follow.
        constants: Values that are known already, on the device where they are used.
        calls: What is executed, in order.
        outputs: What a run returns, in order; a value may occur twice.
    """

    name: str
    values: tuple[NamedValue, ...]
    inputs: tuple[int, ...]
    constants: Mapping[int, np.ndarray]
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]

    def only(self, outputs: Sequence[int]) -> Program:
        """The same program without the calls on which none of ``outputs`` depends."""
        wanted, calls = set(outputs), list[Call]()
        for call in reversed(self.calls):
            if wanted.intersection(call.outputs):
                wanted.update(value for value in call.inputs if value is not None)
                calls.append(call)
        constants = {value: array for value, array in self.constants.items() if value in wanted}
        return replace(self, calls=tuple(reversed(calls)), constants=constants, outputs=tuple(outputs))
