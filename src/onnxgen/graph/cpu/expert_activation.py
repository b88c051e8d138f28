"""What happens to a row between the two layers of an expert."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls

KINDS = ("relu", "relu2", "gelu", "silu", "identity", "swiglu", "geglu")
GATED = ("swiglu", "geglu")
"""Those that always have something to let through."""

_ARGUMENTS = ("hidden", "rows", "width", "y", "alpha", "beta", "limit")
_FLOATS_PER_S = 0.5e9


@dataclass(frozen=True, slots=True)
class ExpertActivation:
    """An activation.

    Attributes:
        kind: One of `KINDS`.
        gated: Whether a row is a gate before what it gates.
        alpha: Of swiglu: slope of the sigmoid.
        beta: Of swiglu: what is added to the gated half.
        limit: Of swiglu: the largest magnitude of both halves (of the gate only upwards); None for no limit.
        limit_last: The limit of the gate holds after its activation.
    """

    kind: str
    gated: bool
    alpha: float = 1.0
    beta: float = 0.0
    limit: float | None = None
    limit_last: bool = False

    @property
    def kernel(self) -> StepKernel:
        """See `compiled.expert_activations`."""
        return step_kernel(
            "expert_activations:activate",
            _ARGUMENTS,
            kind=self.kind,
            gated=self.gated,
            limit_last=self.limit_last,
        )

    def words(self, hidden: int, rows: int, width: int, y: int) -> tuple[int, ...]:
        """Arguments of the kernel for addresses of ``hidden`` and ``y [rows, width]``."""
        limit = math.inf if self.limit is None else self.limit
        numbers = np.array([self.alpha, self.beta, limit], np.float32).view(np.int32)
        return hidden, rows, width, y, *numbers.tolist()

    def of(self, hidden: np.ndarray) -> np.ndarray:
        """The activation of float32 ``[rows, width or twice as much]``, C-contiguous."""
        rows, width = hidden.shape
        width = width // 2 if self.gated else width
        y = np.empty((rows, width), np.float32)
        _calls(self.kernel).run(
            (self.words(hidden.ctypes.data, rows, width, y.ctypes.data),),
            (max(1, rows),),
            seconds=hidden.size / _FLOATS_PER_S,
        )
        return y


@cache
def _calls(kernel: StepKernel) -> NodeCalls:
    return NodeCalls(kernel)
