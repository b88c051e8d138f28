"""Q4_0 GGUF files, llama.cpp's fast format, of both models. Runs in llama.cpp's environment.

    python -m benchmarks.peers.setup.gguf_files OUTPUT --gguf SmolLM2-135M-Instruct.gguf
    python -m benchmarks.peers.setup.gguf_files OUTPUT --gguf SmolLM2-135M-Instruct.gguf --checkpoint RANDOM_QWEN2

Without a checkpoint the file is quantized again. With one, its weights are written with the file's vocabulary first.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_qwen2(checkpoint: Path, vocabulary: Path, output: Path) -> None:
    """Write a Qwen2 checkpoint with a tied head as float16 GGUF."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(output, "qwen2")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _copy_vocabulary(gguf.GGUFReader(vocabulary), writer, config["vocab_size"])
    for name, values in _tensors(checkpoint):
        writer.add_tensor(name, values.astype(np.float16) if values.ndim == 2 else values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _copy_vocabulary(source: gguf.GGUFReader, writer: gguf.GGUFWriter, vocab_size: int) -> None:
    def field(name: str) -> Any:
        return source.fields[f"tokenizer.ggml.{name}"].contents()

    tokens, types = list(field("tokens")), list(field("token_type"))
    unused = range(len(tokens), vocab_size)
    writer.add_tokenizer_model(field("model"))
    writer.add_tokenizer_pre(field("pre") if "tokenizer.ggml.pre" in source.fields else "smollm")
    writer.add_token_list(tokens + [f"<unused{number}>" for number in unused])
    writer.add_token_types(types + [gguf.TokenType.UNUSED for _ in unused])
    writer.add_token_merges(field("merges"))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def _tensors(checkpoint: Path) -> Any:
    """Names in GGUF, and float32 values."""
    import ml_dtypes  # makes safetensors hand out bfloat16
    from safetensors import safe_open

    assert ml_dtypes.bfloat16 is not None
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    with safe_open(checkpoint / "model.safetensors", "numpy") as file:
        for name in file.keys():  # noqa: SIM118 - an open file is no mapping
            if name in fixed:
                target = fixed[name]
            else:
                layer, rest = name.removeprefix("model.layers.").split(".", 1)
                base, suffix = rest.rsplit(".", 1)
                target = f"blk.{layer}.{_LAYER_NAMES[base]}.{suffix}"
            yield target, file.get_tensor(name).astype(np.float32)


def quantize(source: Path, output: Path) -> None:
    """Quantize every matrix to Q4_0, the head too, whatever it was in before."""
    import llama_cpp

    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.pure, params.allow_requantize = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, True, True
    if llama_cpp.llama_model_quantize(str(source).encode(), str(output).encode(), params):
        raise SystemExit(f"llama.cpp could not quantize {source}")


def main() -> None:
    """Make one file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--gguf", type=Path, required=True, help="SmolLM2 as GGUF")
    parser.add_argument(
        "--checkpoint", type=Path, help="a Qwen2 checkpoint that takes its vocabulary from it"
    )
    args = parser.parse_args()
    if args.checkpoint is None:
        quantize(args.gguf, args.output)
        return
    plain = args.output.with_suffix(".f16.gguf")
    write_qwen2(args.checkpoint, args.gguf, plain)
    quantize(plain, args.output)
    plain.unlink()


if __name__ == "__main__":
    main()
