"""How large a model's data will be, before it is built: for the progress bar and the check of disk space."""

from __future__ import annotations

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


def _num_tables(spec: DecoderSpec, rope: RopeSpec) -> int:
    return 2 if rope.longrope is not None and spec.rope_switch_length is not None else 1
