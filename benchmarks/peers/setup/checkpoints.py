"""Checkpoints that every peer's form is made from. Runs in the environment with PyTorch.

python -m benchmarks.peers.setup.checkpoints smollm2-135m OUTPUT --gguf SmolLM2-135M-Instruct.gguf
python -m benchmarks.peers.setup.checkpoints random-0.5b OUTPUT --tokenizer SMOLLM2_CHECKPOINT
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path


def from_gguf(gguf: Path, output: Path) -> None:
    """A GGUF file as a Hugging Face checkpoint, its weights as they are after dequantizing."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # transformers remembers the GGUF blocks as a quantization that it cannot save; the weights are plain by now
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer, model.is_quantized, model.quantization_method = None, False, None
    model.config.architectures = [type(model).__name__]
    model.save_pretrained(output)
    tokenizer.save_pretrained(output)


def random_half_billion(tokenizer: Path, output: Path) -> None:
    """Random weights in the shape of Qwen2.5-0.5B (tied head, biases on q, k and v), with a smaller tokenizer."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    config = Qwen2Config(
        vocab_size=151936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        bos_token_id=1,
        eos_token_id=2,
        use_sliding_window=False,
    )
    Qwen2ForCausalLM(config).save_pretrained(output)
    for path in tokenizer.iterdir():
        if "token" in path.name or path.name in ("vocab.json", "merges.txt", "chat_template.jinja"):
            shutil.copy(path, output)


def main() -> None:
    """Make one checkpoint."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", choices=["smollm2-135m", "random-0.5b"])
    parser.add_argument("output", type=Path)
    parser.add_argument("--gguf", type=Path, help="SmolLM2 as GGUF")
    parser.add_argument("--tokenizer", type=Path, help="a checkpoint whose tokenizer the random model takes")
    args = parser.parse_args()
    if args.model == "smollm2-135m":
        from_gguf(args.gguf, args.output)
    else:
        random_half_billion(args.tokenizer, args.output)


if __name__ == "__main__":
    main()
