"""Compiled code on disk under a key that every process finds again."""

# pyright: reportUntypedBaseClass=false
# Reason: numba is not typed.

from __future__ import annotations

from hashlib import sha256
from typing import Any

from numba.core.caching import FunctionCache

from onnxgen.graph.cpu.source_digest import source_digest


class StableCache(FunctionCache):
    """Numba's cache of a function, whose key says what a closure holds: names, and the source of their modules.

    Numba pickles it instead, and what it compiled itself pickles differently in each process: such code would be compiled,
    and added to the files, every time.
    """

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        described = (self._py_func.__code__.co_code, _described(self._py_func))
        return sig, codegen.magic_tuple(), sha256(repr(described).encode()).hexdigest()


def _described(held: Any) -> Any:
    """A value of a closure: functions, compiled or intrinsic, by their name and their own closure."""
    function = getattr(held, "py_func", None) or getattr(held, "_defn", held)
    if not hasattr(function, "__code__"):
        return repr(held)
    cells = [_described(cell.cell_contents) for cell in function.__closure__ or ()]
    return function.__module__, source_digest(function.__module__), function.__qualname__, cells
