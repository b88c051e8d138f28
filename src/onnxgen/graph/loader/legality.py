"""Names and order of a graph: every value is defined once, is in reach where it is used, and nothing waits for itself."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.order import find_cycle
from onnxgen.graph.loader.walk import direct_graphs, node_label

logger = logging.getLogger(__name__)

_FROM_THE_START = -1


def check_graph(graph: onnx.GraphProto, defects: Defects) -> None:
    """Find everything that is wrong with the names of a model's graph and of the graphs inside it.

    Nodes may be in any order. What ONNX Runtime accepts is no defect: initializers given twice (the last one counts),
    inner inputs and initializers that hide outer values, values that nobody uses.
    """
    for value in graph.input:
        if value.name and not value.HasField("type"):
            defects.add(f"input {value.name!r} has no type")
    _check_graph(graph, _Scope(defects, ""))


def check_function(function: onnx.FunctionProto, defects: Defects) -> None:
    """Find everything that is wrong with the names of a function."""
    scope = _Scope(defects, f" of function {function.name!r}")
    for name in function.input:
        scope.define(name, "an input")
    _check_nodes(function.node, scope)
    for name in function.output:
        if name not in scope.names:
            defects.add(f"output {name!r}{scope.where} is produced by no node")


@dataclass(frozen=True, slots=True)
class _Definition:
    by: str
    position: int  # of the node among its graph's, or _FROM_THE_START


@dataclass(slots=True)
class _Scope:
    """What one graph defines, and the graph around the node that it is inside of."""

    defects: Defects
    where: str
    outer: _Scope | None = None
    position: int = 0  # of that node among the outer graph's
    names: dict[str, _Definition] = field(default_factory=dict[str, _Definition])

    def define(self, name: str, by: str, position: int = _FROM_THE_START) -> None:
        if not name:
            return
        if name in self.names:
            self.defects.add(
                f"value {name!r}{self.where} is defined twice: as {self.names[name].by} and as {by}"
            )
        else:
            self.names[name] = _Definition(by, position)

    def find(self, name: str) -> _Definition | None:
        return next((scope.names[name] for scope in self.chain() if name in scope.names), None)

    def chain(self) -> Iterator[_Scope]:
        scope: _Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def hidden_by(self, name: str) -> _Definition | None:
        """What an outer graph has under that name before the node that this graph is inside of."""
        for scope in self.chain():
            definition = scope.outer.names.get(name) if scope.outer else None
            if definition is not None and definition.position < scope.position:
                return definition
        return None


def _check_graph(graph: onnx.GraphProto, scope: _Scope) -> None:
    for value in graph.input:
        scope.define(value.name, "an input")
    inputs = set(scope.names)
    initializers: set[str] = set()
    for name in initializer_names(graph):
        if name in initializers:
            logger.warning("initializer %r%s is given more than once; the last one counts", name, scope.where)
        elif name not in inputs:
            scope.define(name, "an initializer")
        initializers.add(name)
    _check_initialized_inputs(graph, scope)
    _check_nodes(graph.node, scope)
    for value in graph.output:
        if value.name in scope.names:
            continue
        if scope.find(value.name):
            scope.defects.add(
                f"output {value.name!r}{scope.where} is a value of an outer graph; pass it through an Identity node"
            )
        else:
            scope.defects.add(f"output {value.name!r}{scope.where} is produced by no node")


def initializer_names(graph: onnx.GraphProto) -> Iterator[str]:
    """Names of the graph's initializers, dense and sparse; one without a name can be used by nobody."""
    yield from (tensor.name for tensor in graph.initializer if tensor.name)
    yield from (sparse.values.name for sparse in graph.sparse_initializer if sparse.values.name)


def _check_initialized_inputs(graph: onnx.GraphProto, scope: _Scope) -> None:
    declared = {
        value.name: value.type.tensor_type for value in graph.input if value.type.HasField("tensor_type")
    }
    for tensor in graph.initializer:
        if tensor.name not in declared:
            continue
        expected = declared[tensor.name]
        label = f"initializer {tensor.name!r}{scope.where}"
        if tensor.data_type != expected.elem_type:
            scope.defects.add(
                f"{label} has element type {tensor.data_type}, the input of that name {expected.elem_type}"
            )
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in expected.shape.dim]
        if expected.HasField("shape") and not _fits(list(tensor.dims), dims):
            scope.defects.add(f"{label} has shape {list(tensor.dims)}, the input of that name {dims}")


def _fits(dims: Sequence[int], expected: Sequence[int | None]) -> bool:
    return len(dims) == len(expected) and all(
        wanted is None or wanted < 0 or dim == wanted for dim, wanted in zip(dims, expected, strict=True)
    )


def _check_nodes(several: Iterable[onnx.NodeProto], scope: _Scope) -> None:
    nodes: Sequence[onnx.NodeProto] = list(several)
    for position, node in enumerate(nodes):
        for output in node.output:
            scope.define(output, f"an output of {node_label(node)}", position)
            hidden = scope.hidden_by(output)
            if hidden:
                scope.defects.add(
                    f"{node_label(node)}{scope.where} defines {output!r}, which an outer graph has as {hidden.by}"
                )
    for position, node in enumerate(nodes):
        for name in node.input:
            if name and not scope.find(name):
                scope.defects.add(f"{node_label(node)}{scope.where} uses {name!r}, which nothing defines")
        for graph in direct_graphs(node):
            where = f" of graph {graph.name!r} in {node_label(node)}"
            _check_graph(graph, _Scope(scope.defects, where, scope, position))
    cycle = find_cycle(nodes)
    if cycle:
        path = " -> ".join(node_label(node) for node in cycle)
        scope.defects.add(f"nodes{scope.where} wait for each other: {path}")
