"""The model's functions, and what is wrong with how they are written and called."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterator, Mapping

import onnx

from onnxgen.graph.ir.schemas import schema
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.legality import check_function
from onnxgen.graph.loader.versions import opsets
from onnxgen.graph.loader.walk import inner_graphs, node_label

FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""

_MOST_NODES = 2**20


def functions_to_inline(
    model: onnx.ModelProto, keep_function: Callable[[str, str], bool], defects: Defects
) -> dict[FunctionKey, onnx.FunctionProto]:
    """The functions that the model's graph calls, directly or not, and that are not operators anyway.

    Where onnx defines an operator of that name and domain, the operator is meant, as in ONNX Runtime.
    Functions that nobody calls may be of any kind; the others are checked.
    """
    imported = opsets(model)
    known: dict[FunctionKey, onnx.FunctionProto] = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in known:
            defects.add(f"function {_name(key)} is defined twice")
        if keep_function(function.domain, function.name):
            continue
        if schema(function.domain, function.name, imported.get(function.domain, 1)) is None:
            known[key] = function
    called = _called(model, known)
    for key, function in called.items():
        check_function(function, defects)
        for node in all_nodes(function):
            if node.domain not in opsets(function):
                defects.add(
                    f"function {_name(key)} uses domain {node.domain or 'ai.onnx'!r} and does not import it"
                )
    _check_calls(model, called, defects)
    _check_sizes(model, called, defects)
    return called


def call_key(node: onnx.NodeProto) -> FunctionKey:
    """Which function a node calls, if there is one of that key."""
    return (node.domain, node.op_type, node.overload)


def all_nodes(function: onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
    """The nodes of a function and of the graphs inside them."""
    for node in function.node:
        yield node
        for graph in inner_graphs(node):
            yield from graph.node


def _called(
    model: onnx.ModelProto, known: Mapping[FunctionKey, onnx.FunctionProto]
) -> dict[FunctionKey, onnx.FunctionProto]:
    called: dict[FunctionKey, onnx.FunctionProto] = {}
    waiting = [call_key(node) for node in _main_nodes(model)]
    while waiting:
        key = waiting.pop()
        if key in known and key not in called:
            called[key] = known[key]
            waiting.extend(call_key(node) for node in all_nodes(known[key]))
    return called


def _main_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from model.graph.node
    for node in model.graph.node:
        for graph in inner_graphs(node):
            yield from graph.node


def _check_calls(
    model: onnx.ModelProto, called: Mapping[FunctionKey, onnx.FunctionProto], defects: Defects
) -> None:
    callers = [*_main_nodes(model), *(node for function in called.values() for node in all_nodes(function))]
    for node in callers:
        function = called.get(call_key(node))
        if function is None:
            continue
        for what, given, most in (
            ("inputs", len(node.input), len(function.input)),
            ("outputs", len(node.output), len(function.output)),
        ):
            if given > most:
                defects.add(f"{node_label(node)} has {given} {what}, the function of that name has {most}")


def _check_sizes(
    model: onnx.ModelProto, called: Mapping[FunctionKey, onnx.FunctionProto], defects: Defects
) -> None:
    """Refuse functions that call themselves, and calls of calls that would grow without bound."""
    needs = {
        key: {call_key(node) for node in all_nodes(function)} & called.keys()
        for key, function in called.items()
    }
    try:
        order = list(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        defects.add(f"functions call themselves: {' -> '.join(_name(key) for key in error.args[1])}")
        return
    sizes: dict[FunctionKey, int] = {}
    for key in order:
        sizes[key] = sum(sizes.get(call_key(node), 1) for node in all_nodes(called[key]))
    total = sum(sizes.get(call_key(node), 1) for node in _main_nodes(model))
    if total > _MOST_NODES:
        defects.add(f"its functions, written out, would be {total} nodes; at most {_MOST_NODES} are accepted")


def _name(key: FunctionKey) -> str:
    domain, name, overload = key
    return f"{domain}.{name}" + (f":{overload}" if overload else "")
