"""Functions of compiled loops that are written as instructions."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from numba import types
from numba.extending import intrinsic

NUMBER, PLACE, NOTHING = types.float32, types.intp, types.void


def emitted(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """A function for compiled loops: the decorated ``emit(b, *values)`` gives its instructions and returns its result.

    Args:
        result: `NUMBER`, `PLACE` (an address or count) or `NOTHING`.
        *arguments: Likewise.
    """

    def decorate(emit: Callable[..., Any]) -> Any:
        def generate(context: Any, b: Any, _: Any, values: Any) -> Any:
            made = emit(b, *values)
            return context.get_dummy_value() if result is NOTHING else made

        def typed(_context: Any, *_given: Any) -> Any:
            return result(*arguments), generate

        names = ("_context", *(f"argument{index}" for index in range(len(arguments))))
        kind = Parameter.POSITIONAL_ONLY
        typed.__signature__ = Signature([Parameter(name, kind) for name in names])  # pyright: ignore[reportFunctionMemberAccess]
        typed.__name__ = emit.__name__
        return intrinsic(typed)

    return decorate
