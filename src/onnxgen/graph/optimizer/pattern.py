"""Patterns of operators, followed from a value back through the nodes that made it.

    x = Var("x")
    SILU = op("Mul", x, op("Sigmoid", x))          # x * sigmoid(x), in either order
    found = match(SILU, node.outputs[0])
    found["x"], found.nodes

A pattern says nothing of who else uses the values inside; `Match.closed` asks that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.facts import constant, dtype, input_at, maker

COMMUTATIVE = frozenset(("Add", "Mul", "And", "Or", "Xor", "Equal"))
_TOLERANCE = {ir.DataType.FLOAT16: 1e-3, ir.DataType.BFLOAT16: 8e-3, ir.DataType.DOUBLE: 1e-9}


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern was found.

    Attributes:
        values: Values by the names that the pattern gives them.
        nodes: Nodes that make up the pattern, the last one first.
    """

    values: Mapping[str, ir.Value]
    nodes: tuple[ir.Node, ...]

    def __getitem__(self, name: str) -> ir.Value:
        """The value of that name."""
        return self.values[name]

    def __contains__(self, name: str) -> bool:
        """Whether that name was bound; alternatives bind different ones."""
        return name in self.values

    def closed(self, *, keep: Collection[ir.Value] = ()) -> bool:
        """Whether nobody outside uses a value computed inside, other than the last one's and those in ``keep``."""
        inside = set(self.nodes)
        return all(
            not output.is_graph_output() and all(user in inside for user, _ in output.uses())
            for node in self.nodes[1:]
            for output in node.outputs
            if output not in keep
        )


class Pattern:
    """What a value may look like."""

    def find(self, value: ir.Value, so_far: Match) -> Iterator[Match]:
        """Every way in which the value fits, on top of what is bound so far."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Var(Pattern):
    """Any value; the same name means the same value."""

    name: str

    def find(self, value: ir.Value, so_far: Match) -> Iterator[Match]:
        """Bind it, or compare with what is bound."""
        if so_far.values.get(self.name, value) is value:
            yield _bind(so_far, self.name, value)


@dataclass(frozen=True, slots=True)
class Const(Pattern):
    """A constant: any, or one number, of rank 0 or 1, up to the rounding of its element type."""

    value: float | None = None
    name: str | None = None

    def find(self, value: ir.Value, so_far: Match) -> Iterator[Match]:
        """Compare the number."""
        array = constant(value)
        if array is None or (self.value is not None and not _is(array, self.value, dtype(value))):
            return
        yield _bind(so_far, self.name, value)


@dataclass(frozen=True, slots=True)
class Op(Pattern):
    """The output of an operator; build it with `op`."""

    op_types: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    domain: str = ""
    name: str | None = None
    where: Callable[[ir.Node], bool] = field(default=lambda _: True)

    def find(self, value: ir.Value, so_far: Match) -> Iterator[Match]:
        """Match the node that made the value, then its inputs; further inputs of the node are the caller's to judge."""
        node = maker(value)
        if (
            node is None
            or node.op_type not in self.op_types
            or node.domain != self.domain
            or value.index() != 0
            or (so_far.nodes and node.graph is not so_far.nodes[0].graph)
            or not self.where(node)
        ):
            return
        nodes = so_far.nodes if node in so_far.nodes else (*so_far.nodes, node)
        start = _bind(Match(so_far.values, nodes), self.name, value)
        orders = permutations(range(2)) if node.op_type in COMMUTATIVE else (range(len(self.inputs)),)
        for order in orders:
            yield from self._inputs_from(node, tuple(order), 0, start)

    def _inputs_from(
        self, node: ir.Node, order: tuple[int, ...], position: int, so_far: Match
    ) -> Iterator[Match]:
        if position == len(self.inputs):
            yield so_far
            return
        value = input_at(node, order[position])
        if value is not None:
            for found in self.inputs[position].find(value, so_far):
                yield from self._inputs_from(node, order, position + 1, found)


@dataclass(frozen=True, slots=True)
class Either(Pattern):
    """One of several patterns, the first that fits."""

    options: tuple[Pattern, ...]

    def find(self, value: ir.Value, so_far: Match) -> Iterator[Match]:
        """Try the options in order."""
        for option in self.options:
            yield from option.find(value, so_far)


def op(
    op_types: str,
    *inputs: Pattern | float,
    domain: str = "",
    name: str | None = None,
    where: Callable[[ir.Node], bool] = lambda _: True,
) -> Op:
    """The output of an operator (``"Pow|Mul"`` for one of several); numbers among the inputs are constants.

    Binary operators that commute match in both orders.
    """
    patterns = tuple(item if isinstance(item, Pattern) else Const(float(item)) for item in inputs)
    return Op(tuple(op_types.split("|")), patterns, domain, name, where)


def either(*options: Pattern) -> Either:
    """One of several patterns."""
    return Either(options)


def maybe(op_type: str, inner: Pattern) -> Either:
    """The pattern, or that operator over it (a Cast that may be there)."""
    return Either((inner, op(op_type, inner)))


def match(pattern: Pattern, value: ir.Value) -> Match | None:
    """The first way in which the value fits the pattern, None if there is none."""
    return next(matches(pattern, value), None)


def matches(pattern: Pattern, value: ir.Value) -> Iterator[Match]:
    """Every way in which the value fits the pattern."""
    return pattern.find(value, Match({}, ()))


def _bind(so_far: Match, name: str | None, value: ir.Value) -> Match:
    return so_far if name is None else Match({**so_far.values, name: value}, so_far.nodes)


def _is(array: np.ndarray, wanted: float, element: ir.DataType | None) -> bool:
    if array.size != 1 or array.ndim > 1 or array.dtype.kind in "OUSb":
        return False
    tolerance = _TOLERANCE.get(element or ir.DataType.FLOAT, 3e-6)
    return abs(float(array.reshape(-1)[0]) - wanted) <= tolerance * abs(wanted)
