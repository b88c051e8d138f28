"""One change to a graph: built first, then applied whole or not at all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import Shape, onnx_dtype
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.facts import is_used


class Edit:
    """New nodes that take the place of a node and of those that only it needed.

    Args:
        context: The model's.
        at: The node before which new nodes go; every input of a new node must be known there.
        **did: What the report counts, by phrase with ``_`` for blanks.
    """

    def __init__(self, context: Context, at: ir.Node, **did: int) -> None:
        self.did = {phrase.replace("_", " "): count for phrase, count in did.items()}
        self._context = context
        self._at = at
        self._nodes: list[ir.Node] = []
        self._constants: list[ir.Value] = []
        self._replaced: dict[ir.Value, ir.Value] = {}

    def constant(self, array: np.ndarray, name: str = "constant") -> ir.Value:
        """An initializer with that value."""
        value = ir.Value(
            name=self._context.fresh_name(name),
            type=ir.TensorType(onnx_dtype(array.dtype)),
            shape=ir.Shape(array.shape),
            const_value=_tensor(array),
        )
        self._constants.append(value)
        return value

    def ops(
        self,
        op_type: str,
        inputs: Iterable[ir.Value | np.ndarray | None],
        attributes: dict[str, Any] | None = None,
        *,
        outputs: int = 1,
        unwanted: Collection[int] = (),
        domain: str = "",
    ) -> tuple[ir.Value, ...]:
        """Outputs of a new node; arrays among the inputs become initializers, attributes of None are left out."""
        values = [self.constant(item) if isinstance(item, np.ndarray) else item for item in inputs]
        while values and values[-1] is None:
            values.pop()
        given = {name: value for name, value in (attributes or {}).items() if value is not None}
        node = ir.node(op_type, values, given, domain=domain, num_outputs=outputs)
        for index, output in enumerate(node.outputs):
            base = f"{self._at.outputs[0].name or 'value'}_{op_type}"
            output.name = "" if index in unwanted else self._context.fresh_name(base)
        self._nodes.append(node)
        return tuple(node.outputs)

    def op(
        self,
        op_type: str,
        *inputs: ir.Value | np.ndarray | None,
        domain: str = "",
        like: ir.Value | None = None,
        dtype: ir.DataType | None = None,
        shape: Shape | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """The output of a new node; ``like``, ``dtype`` and ``shape`` say its type where it replaces nothing."""
        (output,) = self.ops(op_type, inputs, attributes, domain=domain)
        if like is not None:
            output.type, output.shape = like.type, like.shape
        if dtype is not None:
            output.type = ir.TensorType(dtype)
        if shape is not None:
            output.shape = ir.Shape(shape)
        return output

    def replace(self, old: ir.Value, new: ir.Value) -> Edit:
        """Let every user of ``old`` use ``new``; a graph's output keeps its name, type and shape."""
        self._replaced[old] = new
        return self

    def apply(self) -> bool:
        """Do it, when providers claim every new node and no output of a graph loses its name; else change nothing."""
        self._hand_types_on()
        if all(map(self._replaceable, self._replaced)) and all(map(self._context.can_run, self._nodes)):
            self._commit()
            return True
        for node in self._nodes:
            node.resize_inputs(0)
        return False

    def _hand_types_on(self) -> None:
        for old, new in self._replaced.items():
            if new.producer() in self._nodes:
                new.type, new.shape = old.type or new.type, old.shape or new.shape

    def _replaceable(self, old: ir.Value) -> bool:
        """Only a value that this graph computes, and that is not itself an output, can take an output's name."""
        if not old.is_graph_output():
            return True
        new = self._replaced[old]
        if list(self._replaced.values()).count(new) > 1:
            return False
        if new in self._constants or new.producer() in self._nodes:
            return True
        return new.producer() is not None and new.graph is old.graph and not new.is_graph_output()

    def _commit(self) -> None:
        graph = self._at.graph
        assert graph is not None
        for node in self._nodes:
            self._context.import_domain(node.domain)
        for value in self._constants:
            graph.initializers.add(value)
        graph.insert_before(self._at, self._nodes)
        for old, new in self._replaced.items():
            self._put_in_place(old, new)
        sweep(old.producer() for old in self._replaced)

    def _put_in_place(self, old: ir.Value, new: ir.Value) -> None:
        if old.is_graph_output():
            name, old.name = old.name, self._context.fresh_name(f"{old.name}_before")
            new.name, new.type, new.shape = name, old.type, old.shape
        old.replace_all_uses_with(new, replace_graph_outputs=True)


def sweep(nodes: Iterable[ir.Node | None]) -> int:
    """Remove those of the nodes that nobody uses, and what only they needed; returns how many went."""
    removed = 0
    pending = [node for node in nodes if node is not None]
    while pending:
        node = pending.pop()
        graph = node.graph
        if graph is None or any(map(is_used, node.outputs)):
            continue
        pending.extend(node.predecessors())
        for inner in _inner_nodes(node):
            pending.extend(inner.predecessors())
            inner.resize_inputs(0)
        graph.remove(node, safe=True)
        removed += 1
    return removed


def _inner_nodes(node: ir.Node) -> list[ir.Node]:
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type is ir.AttributeType.GRAPHS:
            graphs.extend(attribute.as_graphs())
    return [inner for graph in graphs for inner in graph.all_nodes()]


def _tensor(array: np.ndarray) -> ir.TensorProtocol:
    if onnx_dtype(array.dtype) is ir.DataType.STRING:
        texts = [str(item).encode("utf-8", "surrogateescape") for item in array.reshape(-1)]
        return ir.StringTensor(texts, shape=ir.Shape(array.shape))
    return ir.Tensor(np.ascontiguousarray(array).reshape(array.shape), dtype=onnx_dtype(array.dtype))
