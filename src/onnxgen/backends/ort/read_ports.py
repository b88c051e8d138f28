"""Finds the inputs and outputs of a decoder graph by the names that the model's folder gives them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from onnxgen.backends.base import AUX_HIDDEN_STATES, HIDDEN_STATES, DecoderModel
from onnxgen.backends.head_outputs import no_hidden_output
from onnxgen.backends.ort.graph_edit import gqa, widths
from onnxgen.backends.ort.ports import AdapterPort, Ports, RowPort, StateKind, StatePort, TokenPort
from onnxgen.errors import CapabilityError, ModelFileError

DEFAULT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "input_ids": "input_ids",
        "attention_mask": "attention_mask",
        "position_ids": "position_ids",
        "past_key_names": "past_key_values.%d.key",
        "past_value_names": "past_key_values.%d.value",
        "past_names": "past_%d",
        "past_conv_names": "past_conv.%d",
        "logits": "logits",
        "hidden_states": "hidden_states",
        "present_key_names": "present.%d.key",
        "present_value_names": "present.%d.value",
        "present_names": "present_%d",
        "present_conv_names": "present_conv.%d",
    }
)
_STATE_ROLES = (
    ("past_key_names", "present_key_names", StateKind.KEY_VALUE),
    ("past_value_names", "present_value_names", StateKind.KEY_VALUE),
    ("past_names", "present_names", StateKind.COMBINED),
    ("past_conv_names", "present_conv_names", StateKind.FIXED),
)

_ROW_TYPES: Mapping[str, str] = MappingProxyType({"float": "float32", "float16": "float16"})
_CACHES = ("past", "cache", "recurrent", "conv_state")


def read_ports(graph: ir.Graph, model: DecoderModel) -> Ports:
    """Find the inputs and outputs of a decoder by the names that the model's folder gives them.

    Raises:
        CapabilityError: An input is of a kind that nobody could fill.
        ModelFileError: An input or output that every decoder needs is missing, or its sizes are unknown.
    """
    inputs = {str(v.name): v for v in graph.inputs}
    outputs = {str(v.name): v for v in graph.outputs}

    def token_port(role: str) -> TokenPort | None:
        value = inputs.get(_name(model.inputs, role))
        return None if value is None else TokenPort(str(value.name), _integer_type(value, model))

    input_ids = token_port("input_ids")
    if input_ids is None:
        embeds = model.inputs.get("inputs_embeds", "inputs_embeds")
        if embeds in inputs:
            raise CapabilityError(
                f"{model.path} reads embeddings ({embeds!r}) and no ids, and the folder names no graph that makes them of ids; "
                "genai_config.json needs an 'embedding' section"
            )
        raise ModelFileError(
            f"{model.path} has no input {_name(model.inputs, 'input_ids')!r}; its inputs are "
            f"{', '.join(sorted(inputs))}"
        )
    logits, hidden = _name(model.outputs, "logits"), _name(model.outputs, "hidden_states")
    if logits not in outputs:
        raise ModelFileError(
            f"{model.path} has no output {logits!r}; its outputs are {', '.join(sorted(outputs))}"
        )
    shape = outputs[logits].shape
    width = shape[-1] if shape else None
    if isinstance(width, int) and width != model.vocab_size:
        raise ModelFileError(
            f"{model.path} gives logits {logits!r} of {width} tokens, the folder says that there are {model.vocab_size}; set "
            "vocab_size to what the graph has, and use a draft only with a model of the same vocabulary"
        )
    ports = Ports(
        input_ids=input_ids,
        attention_mask=token_port("attention_mask"),
        position_ids=token_port("position_ids"),
        logits=logits,
        hidden_states=hidden if hidden in outputs else None,
        states=tuple(_states(graph, model, inputs, outputs)),
        rows=tuple(_row_ports(inputs, model)),
    )
    return replace(ports, required=_required(ports, graph, model))


def hidden_outputs(graph: ir.Graph, model: DecoderModel) -> tuple[str, ...]:
    """The outputs that hidden states are made of, in order; none where the model names none.

    Raises:
        ModelFileError: The graph lacks one.
    """
    outputs = [str(value.name) for value in graph.outputs]
    for name in model.hidden_outputs:
        if name not in outputs:
            raise ModelFileError(no_hidden_output(model, name, outputs))
    return model.hidden_outputs


def known_inputs(model: DecoderModel) -> set[str]:
    """Names of inputs that have a role of their own, whether the graph has them or not."""
    patterns = [_name(model.inputs, role) for role in DEFAULT_NAMES]
    names = set(patterns) | set(model.inputs.values())
    names.update(name.replace("%d", str(i)) for name in tuple(names) for i in range(model.num_layers))
    return names


def settle_presets(graph: ir.Graph) -> tuple[str, ...]:
    """Make initializers of inputs that say how many logits to give, with 0 for all of them; returns their names."""
    names: list[str] = []
    for value in list(graph.inputs):
        name = str(value.name)
        if name != "num_logits_to_keep" and not name.startswith("onnx::Neg_"):
            continue
        if value.dtype != ir.DataType.INT64 or name in graph.initializers:
            continue
        dims = [1] * len(value.shape or ())
        value.const_value = ir.tensor(np.zeros(dims, np.int64), name=name)
        value.shape = ir.Shape(dims)
        graph.inputs.remove(value)
        graph.register_initializer(value)
        names.append(name)
    return tuple(names)


def _name(names: Mapping[str, str], role: str) -> str:
    return names.get(role, DEFAULT_NAMES[role])


def _integer_type(value: ir.Value, model: DecoderModel) -> str:
    dtype = "" if value.dtype is None else value.dtype.name.lower()
    if dtype not in ("int32", "int64"):
        raise ModelFileError(
            f"input {value.name!r} of {model.path} is {dtype or 'untyped'}, not int32 or int64"
        )
    return dtype


def _row_ports(inputs: Mapping[str, ir.Value], model: DecoderModel) -> Iterator[RowPort]:
    for role in (HIDDEN_STATES, AUX_HIDDEN_STATES):
        value = inputs.get(model.inputs.get(role, ""))
        if value is None:
            continue
        dims = [] if value.shape is None else list(value.shape)
        width = dims[-1] if len(dims) == 3 else None
        kind = "untyped" if value.dtype is None else value.dtype.name.lower()
        if kind not in _ROW_TYPES or not isinstance(width, int):
            raise CapabilityError(
                f"input {value.name!r} of {model.path} is {kind} {dims}; float32 or float16 [batch, seq, width] of a "
                "fixed width can be given"
            )
        yield RowPort(role, str(value.name), _ROW_TYPES[kind], width)


def _states(
    graph: ir.Graph, model: DecoderModel, inputs: Mapping[str, ir.Value], outputs: Mapping[str, ir.Value]
) -> list[StatePort]:
    states: list[StatePort] = []
    for past_role, present_role, kind in _STATE_ROLES:
        past_names, present_names = _name(model.inputs, past_role), _name(model.outputs, present_role)
        for layer in range(model.num_layers):
            past = inputs.get(past_names.replace("%d", str(layer)))
            if past is None:
                continue  # layers without this kind of cache have no such input
            present = outputs.get(present_names.replace("%d", str(layer)))
            if present is None:
                raise ModelFileError(
                    f"{model.path} has the input {past.name!r}, but no output "
                    f"{present_names.replace('%d', str(layer))!r} to go with it"
                )
            states.append(_state(graph, past, present, kind, model))
    return states


def _state(
    graph: ir.Graph, past: ir.Value, present: ir.Value, kind: StateKind, model: DecoderModel
) -> StatePort:
    if past.dtype is None or past.shape is None:
        raise ModelFileError(f"input {past.name!r} of {model.path} has no type or shape")
    dims: list[int | None] = [d if isinstance(d, int) else None for d in past.shape]
    rank = {StateKind.KEY_VALUE: 4, StateKind.COMBINED: 5}.get(kind, len(dims))
    if len(dims) != rank:
        raise ModelFileError(
            f"input {past.name!r} of {model.path} has {len(dims)} axes, expected {kind.value}"
        )
    positions = None
    if kind is StateKind.FIXED:
        own = dims[1:]
    else:
        positions, own = dims[-2], [*dims[:-4], dims[-3], dims[-1]]
        attention = _attention_of(graph, past)
        if attention is not None:
            own[-2] = own[-2] or gqa.int_attribute(attention, "kv_num_heads") or None
            own[-1] = own[-1] or widths.head_dim(attention)
    if any(d is None for d in own):
        raise ModelFileError(
            f"the sizes of input {past.name!r} of {model.path} cannot be told: {past.shape}; expected {kind.value}"
        )
    return StatePort(
        past=str(past.name),
        present=str(present.name),
        kind=kind,
        dtype=past.dtype.numpy().name,
        onnx_type=past.dtype.value,
        dims=tuple(d for d in own if d is not None),
        positions=positions,
    )


def _attention_of(graph: ir.Graph, past: ir.Value) -> ir.Node | None:
    attention = set(gqa.attention_nodes(graph))
    return next((n for n in past.consumers() if n in attention), None)


def _required(ports: Ports, graph: ir.Graph, model: DecoderModel) -> tuple[AdapterPort, ...]:
    """Inputs that nobody here knows how to fill."""
    known = {p.name for p in (ports.input_ids, ports.attention_mask, ports.position_ids) if p is not None}
    known |= {s.past for s in ports.states} | {port.name for port in ports.rows}
    required: list[AdapterPort] = []
    for value in graph.inputs:
        name = str(value.name)
        if name in known or name in graph.initializers:
            continue
        if name.lower().startswith(_CACHES):
            raise CapabilityError(
                f"{model.path} has the input {name!r}, which looks like a cache but is not one of those of "
                f"{model.num_layers} layers under the names of the model's configuration"
            )
        if value.dtype is None or value.shape is None or value.dtype == ir.DataType.STRING:
            raise CapabilityError(
                f"{model.path} has the input {name!r}, which is no tensor of numbers of a known number of axes"
            )
        dims = tuple(dim if isinstance(dim, int) else None for dim in value.shape)
        required.append(AdapterPort(name, value.dtype.numpy().name, value.dtype.value, dims))
    return tuple(required)
