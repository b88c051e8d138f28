"""Step kernels of mixtures of experts: which experts a token goes to, and what comes back from them.

    scores     float32 [tokens, experts]
    chosen     int64 [tokens, k]             the best experts, best first; of equals the first
    shares     float32 [tokens, k]           what each of them counts for
    returned   float32 [tokens * k, width]   results of tokens in any order; ``places`` int64 [tokens, k] says where

A token's results depend on that token alone.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onnxgen.graph.cpu.compiled.function import inline
from onnxgen.graph.cpu.compiled.functions import exp
from onnxgen.graph.cpu.compiled.kernel import floats, ints64, word

StepFunction = Callable[[int, int, int, int, int], None]


@inline
def _choose(scores: int, experts: int, chosen: int, k: int) -> None:
    """The best ``k``, found one after the other. NaN comes last."""
    x, best = floats(scores, experts), ints64(chosen, k)
    for slot in range(k):
        found = -1
        for expert in range(experts):
            taken = False
            for earlier in range(slot):
                taken = taken or best[earlier] == expert
            if not taken and (
                found < 0 or x[expert] > x[found] or (x[found] != x[found] and x[expert] == x[expert])
            ):
                found = expert
        best[slot] = found


def route() -> StepFunction:
    """Choose experts and shares; parts are any split of the tokens.

    Shares are the softmax of a token's scores, or what ``mixing`` (float32 ``[tokens, experts]``, 0 for none) says; where
    ``normalize`` is 1 those of the chosen experts add up to 1.

    Words:

        1, 2, 3   scores, tokens, experts
        4, 5      mixing, normalize
        6, 7, 8   k, chosen, shares
    """

    def route_tokens(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        tokens, experts, k = word(row, 2), word(row, 3), word(row, 6)
        for token in range(tokens * part // parts, tokens * (part + 1) // parts):
            scores = word(row, 1) + 4 * token * experts
            x, chosen = floats(scores, experts), word(row, 7) + 8 * token * k
            _choose(scores, experts, chosen, k)
            best, share = ints64(chosen, k), floats(word(row, 8) + 4 * token * k, k)
            if word(row, 4) != 0:
                mixing = floats(word(row, 4) + 4 * token * experts, experts)
                for slot in range(k):
                    share[slot] = mixing[best[slot]]
            else:
                highest, total = x[best[0]], np.float32(0)
                for expert in range(experts):
                    total += exp(x[expert] - highest)
                for slot in range(k):
                    share[slot] = exp(x[best[slot]] - highest) / total
            if word(row, 5) != 0:
                total = np.float32(0)
                for slot in range(k):
                    total += share[slot]
                for slot in range(k):
                    share[slot] /= total

    return route_tokens


def mix() -> StepFunction:
    """``y[token]`` is the sum of what its experts returned, times their shares, best expert first.

    Words:

        1, 2      returned, width
        3, 4, 5   places, shares, k
        6, 7      tokens; y: float32 [tokens, width]
    """

    def mix_tokens(row: int, step: int, scratch: int, part: int, parts: int) -> None:
        returned, width, k, tokens = word(row, 1), word(row, 2), word(row, 5), word(row, 6)
        for token in range(tokens * part // parts, tokens * (part + 1) // parts):
            places, shares = ints64(word(row, 3) + 8 * token * k, k), floats(word(row, 4) + 4 * token * k, k)
            y = floats(word(row, 7) + 4 * token * width, width)
            for slot in range(k):
                x, share = floats(returned + 4 * places[slot] * width, width), shares[slot]
                if slot == 0:
                    for j in range(width):
                        y[j] = share * x[j]
                else:
                    for j in range(width):
                        y[j] += share * x[j]

    return mix_tokens
