"""From the model folder's graph to the graph that a session runs: choose the plan, rewrite, serialize."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.lora_places import Linear
from onnxgen.backends.ort.external_files import ExternalFile
from onnxgen.backends.ort.graph_edit.names import Rows
from onnxgen.backends.ort.plan_kind import PlanKind
from onnxgen.backends.ort.ports import Ports, StateKind, TokenPort
from onnxgen.errors import CapabilityError

if TYPE_CHECKING:
    import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Prepared:
    """A graph ready for a session.

    Attributes:
        content: The serialized graph.
        data_folder: The folder that its external data is named from.
        external_files: That data.
        kind: The plan it was rewritten for.
        ports: Its inputs and outputs; what the rewrite made needless is gone from them.
        rows: Which positions it computes logits of.
        head_rows: Whether it is also told which of those go through the head.
        embedding_size: Width of embeddings that can be given in place of ids; None: they cannot.
        padding_limit: Padded cells whose copying around attention costs about as much as reading the
            weights once more.
        one_by_one: Whether sequences must not share a call of the dense plan.
        declined: Why other plans do not fit.
        settled: Inputs that the graph was made with and that have a value unless somebody gives another.
    """

    content: bytes
    data_folder: Path
    external_files: tuple[ExternalFile, ...]
    kind: PlanKind
    ports: Ports
    rows: Rows
    head_rows: bool
    embedding_size: int | None
    padding_limit: int
    one_by_one: bool
    declined: tuple[str, ...]
    settled: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenTo:
    """What a graph takes from adapters in every call.

    Attributes:
        nodes: Products that something may be added to, by name.
        inputs: Inputs that the graph was made with for adapters, or may have for them.
    """

    nodes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()


NOTHING = OpenTo()


def prepare(
    model: DecoderModel,
    content: bytes,
    *,
    ragged_attention: bool,
    plan: PlanKind | None = None,
    open_to: OpenTo = NOTHING,
) -> Prepared:
    """Read and rewrite a decoder.

    Args:
        model: The decoder.
        content: The content of its file.
        ragged_attention: Whether the session will run attention with ``query_seqlens``.
        plan: Take this plan instead of the best one.
        open_to: What adapters change.

    Raises:
        ModelFileError: A file is missing or broken.
        CapabilityError: The graph needs what no plan can do, or the plan asked for does not fit it.
    """
    import onnx_ir as ir
    from onnx_ir.passes import common

    from onnxgen.backends.ort.graph_edit import (
        float_blocks,
        given_embeddings,
        gqa,
        hidden_states,
        lora,
        pack_attention,
        row_selection,
        surgery,
    )
    from onnxgen.backends.ort.model_file import parse_decoder
    from onnxgen.backends.ort.read_ports import hidden_outputs, known_inputs, read_ports, settle_presets

    file = parse_decoder(model, content)
    graph = file.model.graph
    settled = (*lora.settle_inputs(graph, known_inputs(model)), *settle_presets(graph))
    common.RemoveInitializersFromInputsPass()(file.model)
    ports = read_ports(graph, model)
    named = hidden_outputs(graph, model)
    if named:
        only = named[0] if len(named) == 1 else hidden_states.join_outputs(graph, named)
        ports = replace(ports, hidden_states=only)
    _drop_other_outputs(graph, ports)
    opened = (*open_to.inputs, *lora.add_pairs(graph, open_to.nodes))
    row_selection.open_pruned_head(graph, logits=ports.logits)
    surgery.drop_dead_nodes(file.model)
    padding_limit = _padding_limit(graph)
    reasons = {
        PlanKind.PACKED: _why_not_packed(graph, ports, model, ragged_attention=ragged_attention),
        PlanKind.BATCHED: _why_not_batched(graph, ports),
        PlanKind.DENSE: _why_not_dense(ports),
    }
    given = ports.hidden_states
    if given is not None and hidden_states.is_before_head(graph, logits=ports.logits, hidden_states=given):
        hidden_states.drop_output(graph, given)  # it comes back, selected as early as the logits
        ports = replace(ports, hidden_states=None)
    rows = row_selection.select_rows(graph, logits=ports.logits, hidden_states=ports.hidden_states)
    if ports.hidden_states is None:
        ports = replace(ports, hidden_states=hidden_states.give_out(graph, logits=ports.logits))
    head_rows = rows is Rows.WANTED and hidden_states.select_for_head(graph, logits=ports.logits)
    if rows is Rows.LAST:
        if model.rope_switch_length is not None:
            raise CapabilityError(
                f"{model.path} gives logits of the last position only and changes its rotary tables at "
                f"{model.rope_switch_length} tokens; build it without pruning its head"
            )
        reasons[PlanKind.PACKED] = (
            reasons[PlanKind.PACKED] or "its head gives logits of the last position only"
        )
    kind = _choose(reasons, model, plan)
    if kind is PlanKind.DENSE:
        ports = _widened(graph, ports)
    row_selection.logits_to_float32(graph, logits=ports.logits)
    if ragged_attention:
        float_blocks.speed_up_float_blocks(graph)
    if kind is PlanKind.PACKED:
        pack_attention.pack_attention(graph)
    embedding_size = given_embeddings.open_embeddings(
        graph, input_ids=ports.input_ids.name, made_before=file.embeddings
    )
    surgery.drop_dead_nodes(file.model)
    if kind is PlanKind.PACKED:
        surgery.drop_unused_inputs(graph)
    if kind is not PlanKind.DENSE:
        _name_slot_axes(graph, ports, packed=kind is PlanKind.PACKED)
    surgery.forget_shapes(graph)
    ports = replace(ports, adapter=lora.open_inputs(graph, opened))
    left = {str(v.name) for v in graph.inputs}
    ports = replace(
        ports,
        attention_mask=_if_left(ports.attention_mask, left),
        position_ids=_if_left(ports.position_ids, left),
        rows=tuple(port for port in ports.rows if port.name in left),
    )
    declined = tuple(f"{k.value}: {reason}" for k, reason in reasons.items() if reason is not None)
    return Prepared(
        content=ir.to_proto(file.model).SerializeToString(),
        data_folder=file.data_folder,
        external_files=file.external_files,
        kind=kind,
        ports=ports,
        rows=rows,
        head_rows=head_rows,
        embedding_size=embedding_size,
        padding_limit=padding_limit,
        # ONNX Runtime refuses batches of prompts with a past there
        one_by_one=bool(gqa.attention_nodes(graph)),
        declined=declined,
        settled=settled,
    )


def adaptable(model: DecoderModel) -> list[Linear]:
    """Products of a decoder that are known by name.

    Raises:
        ModelFileError: A file is missing or broken.
    """
    from onnxgen.backends.ort.graph_edit import lora
    from onnxgen.backends.ort.model_file import parse_decoder, read_content
    from onnxgen.backends.ort.read_ports import known_inputs

    graph = parse_decoder(model, read_content(model)).model.graph
    lora.settle_inputs(graph, known_inputs(model))
    return lora.linears_of(graph)


def _drop_other_outputs(graph: ir.Graph, ports: Ports) -> None:
    """Leave what steps bring; `WholeGraph` gives the rest to whoever asks."""
    kept = {ports.logits, ports.hidden_states, *(state.present for state in ports.states)}
    graph.outputs[:] = [value for value in graph.outputs if value.name in kept]


def _choose(reasons: Mapping[PlanKind, str | None], model: DecoderModel, plan: PlanKind | None) -> PlanKind:
    for kind, reason in reasons.items():
        if reason is None and plan in (None, kind):
            return kind
    asked = reasons if plan is None else {plan: reasons[plan]}
    raise CapabilityError(
        f"{model.path} cannot be run: " + "; ".join(f"{k.value} plan: {r}" for k, r in asked.items())
    )


def _why_not_packed(
    graph: ir.Graph, ports: Ports, model: DecoderModel, *, ragged_attention: bool
) -> str | None:
    from onnxgen.backends.ort.graph_edit.pack_attention import why_not_packable

    if not ragged_attention:
        return "attention with lengths of its own for every sequence needs the CPU provider alone"
    other = _why_not_slots(ports)
    if other:
        return other
    if ports.required:
        return f"the input {ports.required[0].name!r} may be of any layout"
    position_ids, mask = ports.position_ids, ports.attention_mask
    return why_not_packable(
        graph,
        token_inputs={
            ports.input_ids.name,
            *(port.name for port in ports.rows),
            *([position_ids.name] if position_ids else ()),
        },
        call_inputs={mask.name} if mask else set(),
        switches_rope=model.rope_switch_length is not None,
    )


def _why_not_batched(graph: ir.Graph, ports: Ports) -> str | None:
    from onnxgen.backends.ort.graph_edit import gqa

    other = _why_not_slots(ports)
    if other:
        return other
    if ports.attention_mask is None:
        return "it has no attention_mask to say how much of a slot is filled"
    attention = set(gqa.attention_nodes(graph))
    past = {s.past for s in ports.states}
    for value in graph.inputs:
        if value.name in past and not all(
            n in attention and at in (gqa.PAST_KEY, gqa.PAST_VALUE) for n, at in value.uses()
        ):
            return f"{value.name} is read by more than GroupQueryAttention"
    return None


def _why_not_slots(ports: Ports) -> str | None:
    other = next((s for s in ports.states if s.kind is not StateKind.KEY_VALUE), None)
    if other is not None:
        return f"{other.past} is not a cache of {StateKind.KEY_VALUE.value}"
    return None if ports.states else "it has no cache"


def _why_not_dense(ports: Ports) -> str | None:
    fixed = next((s for s in ports.states if s.positions is not None), None)
    return None if fixed is None else f"{fixed.past} has a fixed number of positions, {fixed.positions}"


def _widened(graph: ir.Graph, ports: Ports) -> Ports:
    from onnxgen.backends.ort.graph_edit.widen_states import widen_states

    changed = widen_states(graph, {s.past: s.present for s in ports.states})
    states = (replace(s, dtype="float32") if s.past in changed else s for s in ports.states)
    return replace(ports, states=tuple(states))


def _padding_limit(graph: ir.Graph) -> int:
    """How many padded cells cost as much to copy as the weights cost to read."""
    from onnxgen.backends.ort.graph_edit import gqa, widths

    weights = sum(v.const_value.nbytes for v in graph.initializers.values() if v.const_value is not None)
    cell = 0
    for node in gqa.attention_nodes(graph):
        heads, kv_heads = gqa.int_attribute(node, "num_heads"), gqa.int_attribute(node, "kv_num_heads")
        # float32 query, keys and values in, output out, each read and written
        cell += 2 * 4 * (2 * heads + 2 * kv_heads) * (widths.head_dim(node) or 64)
    return weights // max(cell, 1)


def _name_slot_axes(graph: ir.Graph, ports: Ports, *, packed: bool) -> None:
    """Say what the axes are now, so that no buffer is planned by names that no longer hold."""
    import onnx_ir as ir

    states = {name: s for s in ports.states for name in (s.past, s.present)}
    widths = {port.name: port.width for port in ports.rows}
    for value in [*graph.inputs, *graph.outputs]:
        state = states.get(str(value.name))
        if state is not None:
            value.shape = ir.Shape(["slots", state.dims[0], state.positions or "capacity", state.dims[1]])
        elif packed and value.name in (ports.input_ids.name, _name_of(ports.position_ids)):
            value.shape = ir.Shape(["tokens", 1])
        elif packed and value.name in widths:
            value.shape = ir.Shape(["tokens", 1, widths[value.name]])


def _name_of(port: TokenPort | None) -> str | None:
    return None if port is None else port.name


def _if_left(port: TokenPort | None, left: set[str]) -> TokenPort | None:
    return port if port is not None and port.name in left else None
