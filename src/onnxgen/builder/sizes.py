"""How large a model's data will be, before it is built: for the progress bar and the check of disk space."""

from __future__ import annotations

from dataclasses import replace

from onnxgen.builder.options import BuildOptions
from onnxgen.builder.spec import DecoderSpec, RopeSpec


def estimate_bytes(spec: DecoderSpec, options: BuildOptions, *, tied: bool) -> int:
    """Bytes of all weights and tables.

    Exact but for alignment where weights are quantized here or stored in floats; blocks that a checkpoint
    brings along may be of other widths.
    """
    activation = 2 if options.io_dtype == "float16" else 4
    attention = spec.hidden * (spec.query_width + 2 * spec.kv_width) + spec.query_width * spec.hidden
    mlp = 3 * spec.hidden * spec.mlp.intermediate
    matrices = len(spec.layers) * (attention + mlp)
    heads = spec.vocab * spec.hidden * (1 if tied else 2)
    ropes = {layer.rope: spec.ropes[layer.rope] for layer in spec.layers}.values()
    tables = sum(_num_tables(spec, rope) * rope.rotary_dim for rope in ropes) * spec.context * activation
    norms = (4 * len(spec.layers) + 1) * spec.hidden * activation
    if options.bits is None:
        width = 2 if options.precision in ("fp16", "bf16") else 4
        return (matrices + heads) * width + tables + norms
    scale_bits = (8 * activation + (0 if options.symmetric else options.bits)) / options.block_size
    total_bits = matrices * (options.bits + scale_bits) + heads * (options.head_bits + scale_bits)
    return int(total_bits / 8) + tables + norms


def estimate_head_bytes(spec: DecoderSpec, options: BuildOptions) -> int:
    """Bytes of the head for drafts: a layer, its rotary tables, and the matrix and norms before it; 0 without one."""
    if spec.mtp is None:
        return 0
    one, none = replace(spec, layers=spec.layers[:1]), replace(spec, layers=())
    layer = estimate_bytes(one, options, tied=True) - estimate_bytes(none, options, tied=True)
    width = 4 if options.bits is None else 1
    return layer + 2 * spec.hidden * spec.hidden * width + 3 * spec.hidden * 4


def _num_tables(spec: DecoderSpec, rope: RopeSpec) -> int:
    return 2 if rope.longrope is not None and spec.rope_switch_length is not None else 1
