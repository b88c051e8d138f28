"""All sixteen lanes as one number, always in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxgen.graph.cpu.compiled.vectors import I32, INTS, LANES


def of_all_lanes(b: Any, x: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Halves are combined, then halves of what comes out, until one is left."""
    for step in (8, 4, 2, 1):
        turn = INTS([(lane + step) % LANES for lane in range(LANES)])
        x = combine(x, b.shuffle_vector(x, x, turn))
    return b.extract_element(x, I32(0))


def larger(b: Any, x: Any, y: Any) -> Any:
    """Of each pair of floats; ``y`` where one is NaN."""
    return b.select(b.fcmp_ordered(">", x, y), x, y)
