"""Inputs and outputs of a decoder graph by their roles, as the model's folder names them."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
import onnx_ir as ir

from onnxgen.backends.base import DecoderModel
from onnxgen.backends.native.lower.meanings import CacheState, DeclineError, Known, Meaning, Sample, TokenIds

_DEFAULT_NAMES = {
    "input_ids": "input_ids",
    "attention_mask": "attention_mask",
    "position_ids": "position_ids",
    "past_key_names": "past_key_values.%d.key",
    "past_value_names": "past_key_values.%d.value",
    "logits": "logits",
    "hidden_states": "hidden_states",
    "present_key_names": "present.%d.key",
    "present_value_names": "present.%d.value",
}


def input_name(model: DecoderModel, role: str) -> str:
    """Name of an input."""
    return model.inputs.get(role, _DEFAULT_NAMES[role])


def output_name(model: DecoderModel, role: str) -> str:
    """Name of an output."""
    return model.outputs.get(role, _DEFAULT_NAMES[role])


def layer_name(pattern: str, layer: int) -> str:
    """Name of a layer's input or output."""
    return pattern.replace("%d", str(layer))


def input_meanings(
    graph: ir.Graph,
    model: DecoderModel,
    samples: tuple[Sample, ...],
    declined: list[str],
    *,
    known: Container[ir.Value] = (),
) -> dict[ir.Value, Meaning]:
    """What the inputs mean, but for those that are known; those that a step cannot fill are added to ``declined``."""
    caches = {
        layer_name(input_name(model, f"past_{part}_names"), layer): (part, layer)
        for part in ("key", "value")
        for layer in range(model.num_layers)
    }
    found: dict[ir.Value, Meaning] = {}
    for value in graph.inputs:
        if value in known:
            continue
        name = str(value.name)
        if name == input_name(model, "input_ids"):
            found[value] = TokenIds(tuple((1, s.new) for s in samples))
        elif name == input_name(model, "attention_mask"):
            found[value] = Known(tuple(np.ones((1, s.total), _integers(value)) for s in samples))
        elif name == input_name(model, "position_ids"):
            found[value] = Known(
                tuple(np.arange(s.past, s.total, dtype=_integers(value))[None] for s in samples)
            )
        elif name in caches:
            try:
                found[value] = _cache(value, *caches[name], samples=samples)
            except DeclineError as reason:
                declined.append(f"input {name!r}: {reason}")
        else:
            declined.append(f"input {name!r}: a step cannot fill it")
    return found


def _cache(value: ir.Value, part: str, layer: int, *, samples: tuple[Sample, ...]) -> CacheState:
    dims = None if value.shape is None else tuple(value.shape)
    if dims is None or len(dims) != 4:
        raise DeclineError("a cache [batch, kv_heads, positions, head_dim] is needed")
    heads, width = (d if isinstance(d, int) else 0 for d in (dims[1], dims[3]))
    shapes = tuple((1, heads, s.past, width) for s in samples)
    return CacheState(part, layer, present=False, shapes=shapes)


def _integers(value: ir.Value) -> np.dtype[np.int32] | np.dtype[np.int64]:
    return np.dtype(np.int32) if value.dtype is ir.DataType.INT32 else np.dtype(np.int64)
