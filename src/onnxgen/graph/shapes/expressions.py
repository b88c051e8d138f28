"""Sizes as expressions of symbols: read without a computer algebra system, computed as plain Python integers.

The language is that of `onnx_ir.SymbolicDim`: integers, symbols, ``+ - * / // % **``, ``floor``, ``ceiling``, ``Max``,
``Min`` and ``Mod``. A quotient is exact inside (``floor(3*n/2 + 1/2)``); a whole expression that is not whole is
rounded down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from onnxgen.errors import InvalidGraphError

_MOST_CHARACTERS = 20_000
_MOST_POWER = 16
_CALLS = {"Max": "max", "max": "max", "Min": "min", "min": "min"}


def compile_sizes(expressions: Sequence[int | str], symbols: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """Make a function that takes the symbols' sizes, in order, and returns the expressions' sizes.

    Args:
        expressions: Sizes; integers stand for themselves.
        symbols: Names of the parameters; any text, ``batch size`` and ``N/2`` too. A name wins over what it would
            mean as an expression.

    Raises:
        InvalidGraphError: An expression uses other symbols, or is none.
    """
    parameters = {name: f"s{index}" for index, name in enumerate(symbols)}
    body = ", ".join(size_source(expression, parameters) for expression in expressions)
    source = f"lambda {', '.join(parameters.values())}: ({body}{',' if expressions else ''})"
    return eval(compile(source, "<sizes>", "eval"), {"max": max, "min": min})


def size_source(expression: int | str, names: Mapping[str, str]) -> str:
    """Python source that computes a size in integers, with ``max`` and ``min`` as its only functions.

    Args:
        expression: The size.
        names: The Python expression of each symbol.

    Raises:
        InvalidGraphError: It uses other symbols, or is no expression.
    """
    if isinstance(expression, int):
        return str(expression)
    if expression in names:
        return names[expression]
    known = tuple(sorted(names))
    tree = _parse(expression, known)
    try:
        return _whole(_ratio(tree, {f"_s{index}": names[name] for index, name in enumerate(known)}))
    except _NotASizeError as cause:
        raise InvalidGraphError(f"size {expression!r}: {cause}; known symbols: {', '.join(known)}") from None


def symbols_in(expression: int | str) -> frozenset[str]:
    """The symbols of an expression whose symbols are identifiers, as they are after inference.

    Raises:
        InvalidGraphError: It is no expression.
    """
    if isinstance(expression, int):
        return frozenset()
    if expression.isidentifier():
        return frozenset((expression,))
    tree = _parse(expression, ())
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    )


class _NotASizeError(Exception):
    pass


@cache
def _parse(expression: str, known: tuple[str, ...]) -> ast.expr:
    """The syntax tree, with the n-th known symbol spelled ``_sn`` so that it may be any text."""
    text = expression
    if known:
        places = {name: f"_s{index}" for index, name in enumerate(known)}
        text = _pattern(known).sub(lambda match: places[match[0]], expression)
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError("too long")
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as cause:
        raise InvalidGraphError(f"size {expression[:200]!r} is not an arithmetic expression") from cause


@cache
def _pattern(known: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(known, key=len, reverse=True)
    return re.compile("|".join(rf"(?<![\w.]){re.escape(name)}(?![\w.(])" for name in longest_first))


def _ratio(node: ast.expr, names: Mapping[str, str]) -> tuple[str, str]:
    """Source of numerator and denominator; the denominator is ``"1"`` wherever it can be."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return str(value), "1"
        case ast.Name(id=name) if name in names:
            return names[name], "1"
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            top, bottom = _ratio(operand, names)
            return f"(-{top})", bottom
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _ratio(operand, names)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if (
            0 <= power <= _MOST_POWER
        ):
            top, bottom = _ratio(left, names)
            return f"({top}**{power})", bottom if bottom == "1" else f"({bottom}**{power})"
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _ratio(left, names), _ratio(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if arguments:
            return _call(name, [_ratio(argument, names) for argument in arguments])
        case _:
            raise _NotASizeError(f"{ast.unparse(node)[:80]!r} has no meaning here")


def _binary(op: ast.operator, left: tuple[str, str], right: tuple[str, str]) -> tuple[str, str]:
    (a, b), (c, d) = left, right
    match op:
        case ast.Add() | ast.Sub():
            sign = "+" if isinstance(op, ast.Add) else "-"
            if b == d:
                return f"({a} {sign} {c})", b
            return f"({_times(a, d)} {sign} {_times(c, b)})", _times(b, d)
        case ast.Mult():
            return _times(a, c), _times(b, d)
        case ast.Div():
            return _times(a, d), _times(b, c)
        case ast.FloorDiv():
            return f"({_times(a, d)} // {_times(b, c)})", "1"
        case ast.Mod():
            return f"({_times(a, d)} % {_times(c, b)})", _times(b, d)
        case _:
            raise _NotASizeError(f"operator {type(op).__name__} has no meaning here")


def _call(name: str, arguments: list[tuple[str, str]]) -> tuple[str, str]:
    match name, arguments:
        case "floor", [ratio]:
            return _whole(ratio), "1"
        case "ceiling", [(top, bottom)]:
            return top if bottom == "1" else f"(-(-{top} // {bottom}))", "1"
        case "Mod" | "mod", [left, right]:
            return _binary(ast.Mod(), left, right)
        case _, _ if name in _CALLS and all(bottom == "1" for _, bottom in arguments):
            return f"{_CALLS[name]}({', '.join(top for top, _ in arguments)})" if len(
                arguments
            ) > 1 else arguments[0][0], "1"
        case _, _ if name in _CALLS:
            # over one common, positive denominator
            tops = [
                _product([top, *(b for i, (_, b) in enumerate(arguments) if i != at)])
                for at, (top, _) in enumerate(arguments)
            ]
            return f"{_CALLS[name]}({', '.join(tops)})", _product([bottom for _, bottom in arguments])
        case _:
            raise _NotASizeError(f"function {name} has no meaning here")


def _times(a: str, b: str) -> str:
    return a if b == "1" else b if a == "1" else f"({a} * {b})"


def _product(factors: Sequence[str]) -> str:
    product = "1"
    for factor in factors:
        product = _times(product, factor)
    return product


def _whole(ratio: tuple[str, str]) -> str:
    top, bottom = ratio
    return top if bottom == "1" else f"({top} // {bottom})"
