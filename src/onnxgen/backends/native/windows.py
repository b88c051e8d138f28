"""Which layers of a plan look back over a window only, so that their blocks can be given back as it moves on."""

from __future__ import annotations

from onnxgen.backends.native.plan import Family, StepPlan


def layer_windows(plan: StepPlan, *, context: int) -> tuple[int | None, ...]:
    """How many positions, the own one included, anybody who reads a layer's cache sees, by the cache's index.

    Args:
        plan: Its attention calls.
        context: The longest sequence: a window that holds all of it is none.

    Returns:
        Positions; None where it is all of them.
    """
    seen = [0] * len(plan.caches)
    for call in plan.calls:
        if call.family is Family.ATTEND:
            cache = call.number("cache")
            seen[cache] = max(seen[cache], call.number("window") or context)
    return tuple(window if window < context else None for window in seen)
