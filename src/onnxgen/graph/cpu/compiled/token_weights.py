"""How likely tokens are, beside the best: what sums over rows and candidates are made of."""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.lane_floats import at_least, exact, exp_of_negative, fma

_FAR = np.float32(-1e20)
"""Stands for what is lower, -infinity too; nothing so far below the best has any weight at the temperatures there are."""


@exact
def weights(x: Any, highest: float, by: float, rest: float) -> Any:
    """``exp((x - highest) / temperature)`` for 16 logits: 1 for the best, 0 below e ** -87.

    ``by + rest`` is the inverse temperature; in two floats, so that its rounding does not shift all weights the same way.
    """
    behind = at_least(x - highest, _FAR)
    return exp_of_negative(fma(behind, by, behind * rest))
