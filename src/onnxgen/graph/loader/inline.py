"""Calls of functions, written out as the nodes of the function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from onnxgen.graph.loader.functions import FunctionKey, call_key
from onnxgen.graph.loader.node_opset import mark_opset
from onnxgen.graph.loader.versions import opsets
from onnxgen.graph.loader.walk import direct_graphs, proto_graphs


def inline_functions(model: onnx.ModelProto, functions: Mapping[FunctionKey, onnx.FunctionProto]) -> None:
    """Replace every call of ``functions`` by the function's nodes, and forget all functions of the model.

    Attributes of a function take the call's value, or else the function's default, or are left out. Values
    inside get names that nobody else has. A node keeps the opset that its function imports.

    Args:
        model: Legal, and calls no function that calls itself.
        functions: What to write out.
    """
    if functions:
        for function in functions.values():
            _import_for(model, function)
        _Inliner(model, functions).rewrite(model.graph)
    model.ClearField("functions")


def _import_for(model: onnx.ModelProto, function: onnx.FunctionProto) -> None:
    imported = opsets(model)
    for domain, version in opsets(function).items():
        if domain not in imported:
            model.opset_import.add(domain=domain, version=version)


class _Inliner:
    def __init__(self, model: onnx.ModelProto, functions: Mapping[FunctionKey, onnx.FunctionProto]) -> None:
        self._functions = functions
        self._opsets = opsets(model)
        self._taken = _names(model)
        self._next: dict[str, int] = {}

    def rewrite(self, graph: onnx.GraphProto) -> None:
        """Write out the calls among a graph's nodes and inside them."""
        nodes: list[onnx.NodeProto] = []
        changed = False
        for node in graph.node:
            changed |= call_key(node) in self._functions
            self._expand(node, nodes)
        if changed:
            copies = [_copy(node) for node in nodes]
            graph.ClearField("node")
            graph.node.extend(copies)

    def _expand(self, node: onnx.NodeProto, into: list[onnx.NodeProto]) -> None:
        function = self._functions.get(call_key(node))
        if function is None:
            for graph in direct_graphs(node):
                self.rewrite(graph)
            into.append(node)
            return
        for inner in self._instantiate(node, function):
            self._expand(inner, into)

    def _instantiate(self, call: onnx.NodeProto, function: onnx.FunctionProto) -> Iterable[onnx.NodeProto]:
        """The function's nodes with the call's values and attributes."""
        prefix = call.name or function.name
        names = dict.fromkeys(function.input, "")  # inputs that the call leaves out
        names.update(zip(function.input, call.input, strict=False))
        attributes = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
        own_opsets = opsets(function)
        passed_through: list[tuple[str, str]] = []
        for name, outer in zip(function.output, call.output, strict=False):
            if not outer:
                continue
            if name in names:  # an input, or an output a second time
                passed_through.append((name, outer))
            else:
                names[name] = outer
        for node in function.node:
            for name in node.output:
                if name and name not in names:
                    names[name] = self._fresh(f"{prefix}/{name}")
        for node in function.node:
            copy = _copy(node)
            mark_opset(copy, own_opsets, self._opsets)
            copy.name = f"{prefix}/{node.name}" if node.name else ""
            self._bind(copy, names, attributes, own_opsets)
            yield copy
        for name, outer in passed_through:
            yield onnx.NodeProto(op_type="Identity", input=[names[name]], output=[outer])

    def _bind(
        self,
        node: onnx.NodeProto,
        names: Mapping[str, str],
        attributes: Mapping[str, onnx.AttributeProto],
        own_opsets: Mapping[str, int],
    ) -> None:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for graph in direct_graphs(node):
            self._bind_graph(graph, names, attributes, own_opsets)
        bound = [_bound(attribute, attributes) for attribute in node.attribute]
        node.ClearField("attribute")
        node.attribute.extend(attribute for attribute in bound if attribute is not None)

    def _bind_graph(
        self,
        graph: onnx.GraphProto,
        outer: Mapping[str, str],
        attributes: Mapping[str, onnx.AttributeProto],
        own_opsets: Mapping[str, int],
    ) -> None:
        defined = [v.name for v in graph.input] + [t.name for t in graph.initializer]
        defined += [name for node in graph.node for name in node.output]
        names = {**outer, **{name: self._fresh(name) for name in defined if name}}
        graph.ClearField("value_info")
        for message in (*graph.input, *graph.output, *graph.initializer):
            message.name = names.get(message.name, message.name)
        for node in graph.node:
            mark_opset(node, own_opsets, self._opsets)
            self._bind(node, names, attributes, own_opsets)

    def _fresh(self, wanted: str) -> str:
        """A name that nobody has: the wanted one, or else with a number behind it."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 1) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name


def _bound(
    attribute: onnx.AttributeProto, values: Mapping[str, onnx.AttributeProto]
) -> onnx.AttributeProto | None:
    if not attribute.ref_attr_name:
        return attribute
    value = values.get(attribute.ref_attr_name)
    if value is None:
        return None
    copy = onnx.AttributeProto()
    copy.CopyFrom(value)
    copy.name = attribute.name
    return copy


def _names(model: onnx.ModelProto) -> set[str]:
    names: set[str] = set()
    for graph in proto_graphs(model):
        for message in (*graph.input, *graph.output, *graph.initializer):
            names.add(message.name)
        for node in graph.node:
            names.update(node.output)
    return names


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    return copy
