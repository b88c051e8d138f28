"""The decoder as a whole: embedding, layers, last norm, head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onnxgen.builder.cache_names import HEAD_HIDDEN_STATES, HIDDEN_STATES
from onnxgen.builder.data_file import DataFile
from onnxgen.builder.emitter.attention import AttentionInputs, attend, declare_past
from onnxgen.builder.emitter.context import BATCH, SEQUENCE, Emission
from onnxgen.builder.emitter.embedding import embed
from onnxgen.builder.emitter.graph_builder import IR_VERSION, GraphBuilder
from onnxgen.builder.emitter.head import logits
from onnxgen.builder.emitter.mask import lengths
from onnxgen.builder.emitter.mlp import gated_mlp
from onnxgen.builder.emitter.mtp import fused_input
from onnxgen.builder.emitter.norms import add_norm, norm, norm_weight
from onnxgen.builder.emitter.rope import rope_tables
from onnxgen.builder.matrices import Matrices
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.shared_data import SharedData
from onnxgen.builder.spec import DecoderSpec, MtpSpec

if TYPE_CHECKING:
    import onnx_ir as ir


def emit_decoder(
    spec: DecoderSpec,
    matrices: Matrices,
    data: DataFile | SharedData,
    options: BuildOptions,
    *,
    tied: bool,
    producer_version: str,
    head: MtpSpec | None = None,
) -> tuple[ir.Model, Mapping[str, int]]:
    """Write a decoder's weights and make its graph.

    Args:
        spec: What the decoder computes.
        matrices: Where its weights come from; each is read once.
        data: Where they are stored.
        options: How they are stored.
        tied: Whether the head is the embedding.
        producer_version: Version that the model names as its maker's.
        head: The decoder is the layer of this head for drafts, which also reads hidden states and gives its own.

    Returns:
        The model, whose initializers lie in the data file, and how many matrices have which format.

    Raises:
        CheckpointError: A tensor is missing or of the wrong shape.
        BuildError: A tensor's values do not fit the type it is to be stored in.
    """
    import onnx_ir as ir

    half = options.io_dtype == "float16"
    graph = GraphBuilder(activation=ir.DataType.FLOAT16 if half else ir.DataType.FLOAT)
    emission = Emission(spec, options, matrices, data, graph)
    embedding = embed(emission)
    hidden = embedding.hidden if head is None else fused_input(emission, embedding.hidden, head)
    batch = lengths(emission, longest=spec.rope_switch_length is not None)
    positions = None
    if not spec.rotates_in_attention:
        positions = graph.input("position_ids", ir.DataType.INT64, [BATCH, SEQUENCE])
    shared = AttentionInputs(batch, positions, rope_tables(emission, batch), declare_past(emission))
    x = _layers(emission, hidden, shared)
    if head is not None:
        graph.output(x, HEAD_HIDDEN_STATES)
    elif options.include_hidden_states or spec.mtp is not None:
        graph.output(x, HIDDEN_STATES)
    logits(emission, x, embedding, tied=tied)
    model = ir.Model(
        graph.finish("decoder"),
        ir_version=IR_VERSION,
        producer_name="onnxgen",
        producer_version=producer_version,
    )
    return model, dict(emission.formats)


def _layers(emission: Emission, hidden: ir.Value, shared: AttentionInputs) -> ir.Value:
    """All layers and the last norm.

    Each norm but the first takes in the residual sum before it:
    ``normed, residual = norm(branch + residual), branch + residual``.
    """
    spec = emission.spec
    names = spec.layer_norms
    residual: ir.Value | None = hidden
    weight = _layer_norm_weight(emission, 0, names.attention_in)
    normed = norm(
        emission, f"/model/layers.0/{names.attention_in}", hidden, weight, shape=emission.stream(spec.hidden)
    )
    for index in range(len(spec.layers)):
        path = f"/model/layers.{index}"
        branch = _branch_norm(emission, index, attend(emission, index, normed, shared), names.attention_out)
        assert residual is not None
        weight = _layer_norm_weight(emission, index, names.mlp_in)
        normed, residual = add_norm(emission, f"{path}/{names.mlp_in}", branch, residual, weight)
        branch = _branch_norm(emission, index, gated_mlp(emission, index, normed), names.mlp_out)
        assert residual is not None
        last = index + 1 == len(spec.layers)
        if last:
            weight = norm_weight(emission, "model.norm.weight", spec.hidden, name="model.norm.weight")
            following = "/model/norm"
        else:
            weight = _layer_norm_weight(emission, index + 1, names.attention_in)
            following = f"/model/layers.{index + 1}/{names.attention_in}"
        normed, residual = add_norm(emission, following, branch, residual, weight, keep_sum=not last)
    return normed


def _branch_norm(emission: Emission, index: int, branch: ir.Value, name: str | None) -> ir.Value:
    """The norm of what a branch adds to the residual stream, where the decoder has one."""
    if name is None:
        return branch
    weight = _layer_norm_weight(emission, index, name)
    shape = emission.stream(emission.spec.hidden)
    return norm(emission, f"/model/layers.{index}/{name}", branch, weight, shape=shape)


def _layer_norm_weight(emission: Emission, index: int, name: str) -> ir.Value:
    return norm_weight(
        emission,
        f"{emission.layer(index)}{name}.weight",
        emission.spec.hidden,
        name=f"model.layers.{index}.{name}.weight",
    )
