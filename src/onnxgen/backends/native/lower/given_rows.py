"""Inputs with a row for every token, which a step gives: hidden states of a model that a head drafts for."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.base import AUX_HIDDEN_STATES, HIDDEN_STATES, DecoderModel
from onnxgen.backends.native.lower.meanings import Meaning, RowsOf
from onnxgen.backends.native.lower.state import Lowering
from onnxgen.backends.native.plan import Call, Family, RowKind


def given_rows(
    lowering: Lowering, graph: ir.Graph, model: DecoderModel, declined: list[str]
) -> dict[ir.Value, Meaning]:
    """What such inputs mean; those whose width is not fixed are added to ``declined``."""
    roles = {
        model.inputs[role]: role for role in (HIDDEN_STATES, AUX_HIDDEN_STATES) if model.inputs.get(role)
    }
    found: dict[ir.Value, Meaning] = {}
    for value in graph.inputs:
        name = str(value.name)
        if name not in roles:
            continue
        dims = [] if value.shape is None else list(value.shape)
        width = dims[-1] if len(dims) == 3 else None
        if not isinstance(width, int):
            declined.append(f"input {name!r}: [batch, seq, width] of a fixed width is needed, it has {dims}")
            continue
        view = lowering.add_buffer(name, RowKind.TOKENS, width)
        lowering.calls.append(
            Call(
                Family.GIVEN,
                RowKind.TOKENS,
                writes={"y": view},
                parameters={"input": roles[name]},
                nodes=(name,),
            )
        )
        found[value] = RowsOf(view, RowKind.TOKENS, tuple((1, s.new, width) for s in lowering.samples))
    return found
