"""The protocol of execution providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

HOST = "cpu"
"""The device whose values are NumPy arrays in this process's memory."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise: the provider that claims a node compiles and runs it.

    Attributes:
        kernel: Which of the provider's kernels will run it; a name for people (``conv/im2col``).
        cost: What the provider expects it to cost; None leaves the estimate to the cost model.
    """

    kernel: str
    cost: Cost | None = None


@dataclass(frozen=True, slots=True)
class Decline:
    """Why a provider does not run a node, as a phrase that completes "declined: ..."."""

    reason: str


@runtime_checkable
class ExecutionProvider(Protocol):
    """Runs nodes on one device. One instance serves every session of a process and every thread."""

    @property
    def name(self) -> str:
        """Short lower-case name: ``cpu``, ``reference``."""
        ...

    @property
    def device(self) -> str:
        """Where its kernels' values live: `HOST`, or a name of its own such as ``cuda:0``."""
        ...

    def claim(self, node: NodeSpec) -> Claim | Decline:
        """Say whether this provider runs the node. Cheap, without side effects, and never raises for a valid node."""
        ...

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        """Make a claimed node ready to run; may be slow (packing weights, compiling)."""
        ...

    def allocate(self, num_bytes: int) -> Any:
        """Uninitialised memory for an arena: on the host a ``uint8`` array whose address is a multiple of 64."""
        ...

    def to_device(self, array: np.ndarray) -> Any:
        """A host array as a value of this device; on the host the array itself."""
        ...

    def to_host(self, value: Any) -> np.ndarray:
        """A value of this device as a host array; on the host the value itself."""
        ...

    def synchronize(self) -> None:
        """Return when everything that was started on the device is done; on the host at once."""
        ...
