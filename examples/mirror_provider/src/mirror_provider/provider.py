"""The provider: what onnxgen asks and what it is told."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from mirror_provider.device import MirrorValue, to_device, to_host
from mirror_provider.operators import OPERATORS
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, Decline

ELEMENTS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, ir.DataType.INT64)


class MirrorProvider:
    """Runs a handful of operators on a made-up device.

    Args:
        min_rank: Least rank of a tensor that is worth the way to the device; a text when it comes from
            ``provider_options``.
    """

    name = "mirror"
    device = "mirror:0"

    def __init__(self, min_rank: int | str = 0) -> None:
        self.min_rank = int(min_rank)

    def claim(self, node: NodeSpec) -> Claim | Decline:
        """Claim what `OPERATORS` has, for tensors of known types."""
        if node.domain or node.op_type not in OPERATORS:
            return Decline("has no kernel for it")
        versions, _ = OPERATORS[node.op_type]
        if node.since_version not in versions:
            return Decline(f"has versions {', '.join(map(str, versions))} of it")
        for index in range(len(node.inputs)):
            if node.input_dtype(index) not in ELEMENTS:
                return Decline(f"has no elements of type {node.input_dtype(index).name.lower()}")
        ranks = [len(kind.shape or ()) for kind in node.inputs if hasattr(kind, "shape")]
        if max(ranks, default=0) < self.min_rank:
            return Decline(f"is not worth the way for ranks below {self.min_rank}")
        return Claim(f"mirror/{node.op_type.lower()}")

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        """Make a kernel; its values are those of the device."""
        _, apply = OPERATORS[node.op_type]
        may_alias = ((0, 0),) if node.op_type == "Identity" else ()
        return Kernel(apply, may_alias=may_alias)

    def allocate(self, num_bytes: int) -> MirrorValue:
        """Memory of the device."""
        return to_device(np.empty(num_bytes, np.uint8))

    def to_device(self, array: np.ndarray) -> MirrorValue:
        """A copy on the device."""
        return to_device(array)

    def to_host(self, value: MirrorValue) -> np.ndarray:
        """A copy on the host."""
        return to_host(value)

    def synchronize(self) -> None:
        """Launches of this device are over when they return."""
