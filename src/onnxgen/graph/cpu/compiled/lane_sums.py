"""What makes passes over long rows short: loads without masks but at the end, and sums of those floats that pass a test."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled.lane_floats import exact, in_all_lanes, lanes, load, load_first
from onnxgen.graph.cpu.compiled.vector_math import LANES


@exact
def load_most(address: int, count: int, rest: float) -> Any:
    """As `load_first`, and sooner where there are 16."""
    return load(address) if count >= LANES else load_first(address, count, rest)


def _plus_from(_context: Any, total: Any, x: Any, low: Any, value: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        total, x, low, value = arguments
        reaches = builder.fcmp_ordered(">=", x, in_all_lanes(builder, low))
        return builder.select(reaches, builder.fadd(total, value), total)

    return lanes(lanes, lanes, types.float32, lanes), generate


plus_from: Any = intrinsic(_plus_from)
"""``plus_from(total, x, low, value)``: ``total + value`` where ``x`` is at least ``low``, else ``total``."""
