"""Symbols of a model's inputs, made fit for arithmetic."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

import onnx_ir as ir

from onnxgen.graph.shapes.expressions import symbols_in

_NAMES_NOTHING = re.compile(r"[^\w]*|-?\d+|unk|unknown|none|null|dynamic|any", re.IGNORECASE)
"""Names that exporters write where they know nothing: two of them do not mean the same size."""

_MINTED = re.compile(r"_d\d+")
"""Names that inference gives to dimensions that it finds."""

_FUNCTIONS = frozenset({"max", "min", "mod", "floor", "sqrt", "ceiling"})


class InputSymbols:
    """Gives the symbols of inputs the names that inference computes with.

    Equal names stay one symbol, except those that name nothing. A name that is an expression of symbols which are
    dimensions themselves (``past + seq``) stays that expression; every other name becomes an identifier.

    Attributes:
        declared: The spelling in the file, by new name; None for a dimension without a name.
    """

    def __init__(self, inputs: Iterable[ir.Value]) -> None:
        self.declared: dict[str, str | None] = {}
        self._renamed: dict[str, str] = {}
        inputs = list(inputs)
        names = [dim.value for value in inputs for dim in _symbolic_dims(value)]
        plain = {name for name in names if name is not None and _is_plain(name)}
        for name in sorted(plain):
            self._renamed[name] = name
            self.declared[name] = name
        self._plain = plain
        for value in inputs:
            self.rename(value)

    def rename(self, value: ir.Value) -> None:
        """Rename the symbols in a value's shape, in place."""
        if value.shape is not None:
            value.shape = ir.Shape([self._dim(value, index, dim) for index, dim in enumerate(value.shape)])

    def fresh(self, wanted: str, declared: str | None = None) -> str:
        """A symbol that is not used yet, whose name begins with what is wanted."""
        base = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "dim"
        base = f"_{base}" if base[0].isdigit() else base
        name, number = base, 0
        while name in self.declared or not _is_plain(name) or _MINTED.fullmatch(name):
            number += 1
            name = f"{base}_{number}"
        self.declared[name] = declared
        return name

    def _dim(self, value: ir.Value, index: int, dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
        if isinstance(dim, int):
            return dim if dim >= 0 else ir.SymbolicDim(self.fresh(f"{value.name}_{index}"))
        name = dim.value
        if name is None or _NAMES_NOTHING.fullmatch(name.strip()):
            return ir.SymbolicDim(self.fresh(f"{value.name}_{index}", name))
        if name not in self._renamed:
            self._renamed[name] = self._expression(name) or self.fresh(name, name)
        return ir.SymbolicDim(self._renamed[name])

    def _expression(self, name: str) -> str | None:
        """The name itself where it is a sum, difference, product or quotient of plain symbols and numbers."""
        if len(name) > 200 or not re.fullmatch(r"[\w\s+*/()-]+", name, re.ASCII) or "**" in name:
            return None
        try:
            used = symbols_in(name)
        except ValueError:
            return None
        return name if used and used <= self._plain else None


def _symbolic_dims(value: ir.Value) -> list[ir.SymbolicDim]:
    return [] if value.shape is None else [dim for dim in value.shape if isinstance(dim, ir.SymbolicDim)]


def _is_plain(name: str) -> bool:
    return (
        name.isascii()
        and name.isidentifier()
        and not keyword.iskeyword(name)
        and name.lower() not in _FUNCTIONS
        and not _NAMES_NOTHING.fullmatch(name)
    )
