"""RMS norms, alone or fused with the residual sum before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.builder.emitter.context import Emission
from onnxgen.builder.emitter.graph_builder import CONTRIB, Dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


def norm_weight(emission: Emission, tensor: str, size: int, *, name: str) -> ir.Value:
    """Store the weights of a norm, with the offset that the decoder adds to them."""
    values = emission.matrices.vector(tensor, size)
    return emission.vector(name, values + emission.spec.norm.weight_offset)


def norm(emission: Emission, path: str, x: ir.Value, weight: ir.Value, *, shape: Sequence[Dim]) -> ir.Value:
    """``x / rms(x) * weight`` over the last axis."""
    return emission.graph.node(
        path,
        "SimplifiedLayerNormalization",
        [x, weight],
        shape=shape,
        axis=-1,
        epsilon=emission.spec.norm.epsilon,
        stash_type=1,
    )


def add_norm(
    emission: Emission, path: str, x: ir.Value, residual: ir.Value, weight: ir.Value, *, keep_sum: bool = True
) -> tuple[ir.Value, ir.Value | None]:
    """The norm of ``x + residual``, and that sum (None where nobody needs it)."""
    kind = (emission.graph.activation, emission.stream(emission.spec.hidden))
    values = emission.graph.nodes(
        path,
        "SkipSimplifiedLayerNormalization",
        [x, residual, weight],
        [kind, None, None, kind] if keep_sum else [kind],
        domain=CONTRIB,
        epsilon=emission.spec.norm.epsilon,
    )
    return values[0], values[3] if keep_sum else None
