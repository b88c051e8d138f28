"""A decoder graph to the plan of a step: every node is asked what it means for packed tokens."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.head_outputs import no_hidden_output
from onnxgen.backends.native.lower.all_rules import RULES
from onnxgen.backends.native.lower.choice import choose
from onnxgen.backends.native.lower.constants import fold
from onnxgen.backends.native.lower.given_rows import given_rows
from onnxgen.backends.native.lower.graph_ports import input_meanings, layer_name, output_name
from onnxgen.backends.native.lower.lengths import follows_from_lengths, make_samples, work_out
from onnxgen.backends.native.lower.meanings import (
    CacheState,
    Constant,
    DeclineError,
    Meaning,
    Unknown,
)
from onnxgen.backends.native.lower.state import Lowering, whole_rows
from onnxgen.backends.native.plan import Call, Family, RowKind, StepPlan, View
from onnxgen.errors import CapabilityError, ModelFileError
from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.loader import LoadedGraph

_MIXING = frozenset((Family.ATTEND, Family.EMBED, Family.GIVEN))


def lower_decoder(loaded: LoadedGraph, model: DecoderModel) -> StepPlan:
    """Turn a decoder graph into the plan of a step, one call for each node that computes activations.

    Raises:
        CapabilityError: Some nodes have no form for packed tokens; the message has every one of them, and why.
        ModelFileError: An output is missing that hidden states are to be made of.
    """
    graph = loaded.model.graph
    opsets = {normal_domain(name): version for name, version in loaded.model.opset_imports.items()}
    lowering = Lowering(
        make_samples(longest=model.context_length, switch_length=model.rope_switch_length),
        switch_length=model.rope_switch_length,
        opsets=opsets,
    )
    declined: list[str] = []
    given = given_rows(lowering, graph, model, declined)
    lowering.meanings.update(given)
    lowering.meanings.update(input_meanings(graph, model, lowering.samples, declined, known=given))
    walk_nodes(lowering, graph, declined)
    if not declined:
        try:
            return _plan(lowering, graph, model)
        except DeclineError as reason:
            declined.append(str(reason))
    reasons = "".join(f"\n- {reason}" for reason in declined)
    raise CapabilityError(f"the native backend cannot run {loaded.origin}:{reasons}")


def walk_nodes(lowering: Lowering, graph: ir.Graph, declined: list[str]) -> None:
    """Find the meaning of every value of a graph; nodes without one are added to ``declined``."""
    for node in graph:
        try:
            found = _meanings(lowering, node, declined)
        except DeclineError as reason:
            declined.append(f"{node.op_type} {node.name!r}: {reason}")
            found = ()
        for index, output in enumerate(node.outputs):
            lowering.meanings[output] = found[index] if index < len(found) else Unknown()


def _meanings(lowering: Lowering, node: ir.Node, declined: list[str]) -> list[Meaning]:
    inputs = [lowering.meaning(value) for value in node.inputs]
    if any(isinstance(meaning, Unknown) for meaning in inputs):
        return []  # whoever made it unknown has said why
    if node.op_type == "If" and normal_domain(node.domain) == "":
        return choose(lowering, node, inputs[0], lambda branch: walk_nodes(lowering, branch, declined))
    if all(m is None or isinstance(m, Constant) for m in inputs):
        return fold(node, inputs, lowering.opsets)
    if all(follows_from_lengths(meaning) for meaning in inputs):
        return list(work_out(node, inputs, samples=lowering.samples, opsets=lowering.opsets))
    rule = RULES.get((normal_domain(node.domain), node.op_type))
    if rule is None:
        raise DeclineError("this operator has no form for packed tokens")
    return list(rule(lowering, node, inputs))


def _plan(lowering: Lowering, graph: ir.Graph, model: DecoderModel) -> StepPlan:
    outputs = {str(value.name): value for value in graph.outputs}
    _check_present(lowering, outputs, model)
    logits = outputs.get(output_name(model, "logits"))
    if logits is None:
        raise DeclineError(f"there is no output {output_name(model, 'logits')!r}")
    states = _hidden_states(lowering, outputs, model, logits)
    last = _wanted(lowering, logits)
    if last.width != model.vocab_size:
        raise DeclineError(f"logits are {last.width} wide for a vocabulary of {model.vocab_size}")
    return StepPlan(
        calls=tuple(lowering.calls),
        buffers=lowering.buffers,
        weights=lowering.weights,
        caches=tuple(lowering.caches),
        logits=last,
        hidden_states=states,
        positions=lowering.positions,
    )


def _hidden_states(
    lowering: Lowering, outputs: dict[str, ir.Value], model: DecoderModel, logits: ir.Value
) -> View | None:
    names = model.hidden_outputs or (output_name(model, "hidden_states"),)
    found = [outputs[name] for name in names if name in outputs]
    if len(found) < len(names):
        if not model.hidden_outputs:
            return _before_head(lowering, logits)
        missing = next(name for name in names if name not in outputs)
        raise ModelFileError(no_hidden_output(model, missing, outputs))
    parts = [_wanted(lowering, value) for value in found]
    if len(parts) == 1:
        return parts[0]
    joined = lowering.add_buffer("onnxgen.hidden_states", RowKind.WANTED, sum(part.width for part in parts))
    reads = {f"x{i}": part for i, part in enumerate(parts)}
    lowering.calls.append(Call(Family.JOIN, RowKind.WANTED, reads, {"y": joined}, nodes=tuple(names)))
    return joined


def _wanted(lowering: Lowering, value: ir.Value) -> View:
    """The rows that a step wants of a graph output."""
    found = whole_rows(lowering.meanings.get(value), f"output {value.name!r}")
    return _selected(lowering, found.view, nodes=(str(value.name),))


def _selected(lowering: Lowering, found: View, *, nodes: tuple[str, ...]) -> View:
    """The wanted rows of activations."""
    if lowering.buffers[found.buffer].rows is RowKind.WANTED:
        return found
    name = f"{found.buffer}.wanted"
    if name in lowering.buffers:
        return View(name, 0, found.width)
    view = lowering.add_buffer(name, RowKind.WANTED, found.width)
    lowering.calls.append(Call(Family.SELECT, RowKind.WANTED, {"x": found}, {"y": view}, nodes=nodes))
    return view


def _before_head(lowering: Lowering, logits: ir.Value) -> View | None:
    """The wanted rows of what the head multiplies; None where the logits come from something else."""
    writers = {view.buffer: call for call in lowering.calls for view in call.writes.values()}
    view = whole_rows(lowering.meanings.get(logits), f"output {logits.name!r}").view
    while (call := writers.get(view.buffer)) is not None and "x" in call.reads:
        view = call.reads["x"]
        if call.family is Family.PRODUCT:
            return _selected(lowering, view, nodes=call.nodes)
        if call.family in _MIXING:
            return None
    return None


def _check_present(lowering: Lowering, outputs: dict[str, ir.Value], model: DecoderModel) -> None:
    for part in ("key", "value"):
        for layer in range(model.num_layers):
            value = outputs.get(layer_name(output_name(model, f"present_{part}_names"), layer))
            if value is None:
                continue
            found = lowering.meanings.get(value)
            own = (
                isinstance(found, CacheState) and found.present and (found.part, found.layer) == (part, layer)
            )
            if not own:
                raise DeclineError(f"output {value.name!r} is not what attention makes of its layer's cache")
