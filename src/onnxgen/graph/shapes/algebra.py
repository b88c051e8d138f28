"""Arithmetic on sizes: integers, and expressions of symbols that sympy keeps simple."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import onnx_ir as ir
import sympy

from onnxgen.errors import InvalidGraphError

Size = int | ir.SymbolicDim
"""A dimension, or an element of a tensor that shapes are computed from."""

_FUNCTIONS = {
    "floor": sympy.floor,
    "ceiling": sympy.ceiling,
    "Max": sympy.Max,
    "max": sympy.Max,
    "Min": sympy.Min,
    "min": sympy.Min,
    "Mod": sympy.Mod,
    "mod": sympy.Mod,
}
_OPERATORS: Mapping[type[ast.operator], Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: sympy.floor(a / b),
    ast.Mod: lambda a, b: sympy.Mod(a, b),
}
_MOST_POWER = 16


def expression(size: Size) -> sympy.Expr:
    """A size for sympy; symbols are integers that are not negative.

    Raises:
        InvalidGraphError: A dimension's text is no expression.
    """
    if isinstance(size, int):
        return sympy.Integer(size)
    if size.value is None:
        raise InvalidGraphError("a dimension without a name cannot be computed with")
    return _parsed(size.value)


def size_of(value: sympy.Expr) -> Size:
    """The size that an expression stands for."""
    return int(value) if value.is_Integer else ir.SymbolicDim(value)


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are equal whatever the symbols are."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return a == b or (a.__class__ is b.__class__ and expression(a) == expression(b))


def product(sizes: Iterable[Size]) -> Size:
    """The product; 1 of none."""
    result = sympy.Integer(1)
    for size in sizes:
        result = result * expression(size)
    return size_of(result)


@lru_cache(maxsize=4096)
def quotient(a: Size, b: Size) -> Size:
    """``a / b`` rounded down, common factors cancelled.

    Raises:
        InvalidGraphError: ``b`` is 0.
    """
    if b == 0:
        raise InvalidGraphError(f"size {a} divided by 0")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    return size_of(sympy.floor(sympy.cancel(expression(a) / expression(b))))


@lru_cache(maxsize=4096)
def difference(a: Size, b: Size) -> Size:
    """``a - b``."""
    return size_of(expression(a) - expression(b))


def total(sizes: Iterable[Size]) -> Size:
    """The sum; 0 of none."""
    result = sympy.Integer(0)
    for size in sizes:
        result = result + expression(size)
    return size_of(result)


@lru_cache(maxsize=4096)
def largest(a: Size, b: Size) -> Size:
    """The larger one."""
    return size_of(sympy.Max(expression(a), expression(b)))


@lru_cache(maxsize=4096)
def smallest(a: Size, b: Size) -> Size:
    """The smaller one."""
    return size_of(sympy.Min(expression(a), expression(b)))


def broadcast(a: Size, b: Size) -> Size:
    """The common size of two dimensions that must be equal unless one of them is 1.

    Two different symbols may both be the one that is 1, so neither can be left out.

    Raises:
        InvalidGraphError: They can never fit.
    """
    if same(a, b) or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int) and isinstance(b, int):
        raise InvalidGraphError(f"dimensions {a} and {b} do not fit together")
    if isinstance(a, int) or isinstance(b, int):
        return a if isinstance(a, int) else b
    return largest(a, b)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> sympy.Expr:
    if text.isidentifier():
        return sympy.Symbol(text, integer=True, nonnegative=True)
    try:
        return _convert(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, KeyError, MemoryError, RecursionError) as cause:
        raise InvalidGraphError(f"size {text[:200]!r} is not an arithmetic expression") from cause


def _convert(node: ast.expr) -> sympy.Expr:
    match node:
        case ast.Constant(value=int(value)):
            return sympy.Integer(value)
        case ast.Name(id=name):
            return sympy.Symbol(name, integer=True, nonnegative=True)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_convert(operand)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if (
            0 <= power <= _MOST_POWER
        ):
            return _convert(left) ** power
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_convert(left), _convert(right))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*map(_convert, arguments))
        case _:
            raise ValueError(ast.dump(node))
