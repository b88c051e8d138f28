"""``If`` over lengths: rotary tables that sequences beyond a length use."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnxgen.backends.native.lower.lengths import is_for_each
from onnxgen.backends.native.lower.meanings import Constant, DeclineError, Meaning, Switched
from onnxgen.backends.native.lower.state import Lowering, attribute, describe


def choose(
    lowering: Lowering, node: ir.Node, condition: Meaning | None, walk: Callable[[ir.Graph], None]
) -> list[Meaning]:
    """What an ``If`` gives: one branch where lengths do not matter, or a constant for short and one for long sequences.

    Raises:
        DeclineError: The condition is another one than the switch of rotary tables, or a branch computes anything.
    """
    branches = {name: _branch(lowering, node, name, walk) for name in ("then_branch", "else_branch")}
    then, other = branches["then_branch"], branches["else_branch"]
    count = len(lowering.samples)
    if is_for_each(condition, [True] * count):
        return then
    if is_for_each(condition, [False] * count):
        return other
    switch = lowering.switch_length
    if switch is None:
        raise DeclineError("lengths choose a branch, but the model's folder names no length where they would")
    longer = [s.total > switch for s in lowering.samples]
    if is_for_each(condition, [not wanted for wanted in longer]):
        then, other = other, then
    elif not is_for_each(condition, longer):
        raise DeclineError(
            f"its branches do not change at {switch} tokens, as the model's folder says they do"
        )
    return [_switched(short, long) for short, long in zip(other, then, strict=True)]


def _switched(short: Meaning, long: Meaning) -> Switched:
    if not isinstance(short, Constant) or not isinstance(long, Constant):
        raise DeclineError(f"lengths choose between {describe(short)} and {describe(long)}")
    return Switched(short, long)


def _branch(lowering: Lowering, node: ir.Node, name: str, walk: Callable[[ir.Graph], None]) -> list[Meaning]:
    graph = attribute(node, name)
    assert isinstance(graph, ir.Graph)
    walk(graph)
    found = [lowering.meaning(value) for value in graph.outputs]
    return [meaning for meaning in found if meaning is not None]
