"""Write tests/fixtures/og-built-*: folders made by onnxruntime-genai's builder, and what onnxruntime-genai answers.

In an environment of its own:

    pip install torch transformers onnxruntime onnxruntime-genai onnx-ir numpy
    python scripts/make_og_fixtures.py

``greedy.json`` in each folder holds the greedy tokens of onnxruntime-genai for prompts of the checkpoint's golden
file. Sequences that would cross the switch of a longrope model are left out: onnxruntime-genai knows the switch
length of published Phi-3 models only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnxruntime_genai as og

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from checkpoints import CHECKPOINTS, TinyCheckpoint, prompt_ids, write_checkpoint

FIXTURES = {
    "og-built-llama-fp32": ("llama", ["-p", "fp32"]),
    "og-built-llama-int4": ("llama", ["-p", "int4"]),
    "og-built-qwen3-int4-pruned": ("qwen3", ["-p", "int4", "--extra_options", "prune_lm_head=true"]),
    "og-built-phi3-longrope-int4": ("phi3-longrope", ["-p", "int4"]),
}


def greedy(model: og.Model, ids: list[int], new_tokens: int) -> list[int]:
    """Greedy tokens of onnxruntime-genai, end tokens treated like any other."""
    params = og.GeneratorParams(model)
    total = len(ids) + new_tokens
    params.set_search_options(do_sample=False, max_length=total)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(ids, np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    return [int(token) for token in generator.get_sequence(0)[len(ids) :]]


def cases(checkpoint: TinyCheckpoint) -> list[tuple[list[int], int]]:
    """Prompts and how many tokens follow each."""
    switch = checkpoint.config.get("original_max_position_embeddings")
    longrope = checkpoint.config.get("rope_scaling", {}) and switch
    return [
        (prompt_ids(checkpoint, length), checkpoint.new_tokens)
        for length in checkpoint.prompts
        if not longrope or length > switch or length + checkpoint.new_tokens <= switch
    ]


def main() -> None:
    """Build all fixtures anew."""
    for name, (source, options) in FIXTURES.items():
        target = ROOT / "tests" / "fixtures" / name
        with tempfile.TemporaryDirectory() as work:
            checkpoint = write_checkpoint(CHECKPOINTS[source], Path(work) / source)
            builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", str(checkpoint)]
            command = [*builder, "-o", str(target), "-e", "cpu", "-c", work, *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        model = og.Model(str(target))
        answers = [
            {"input_ids": ids, "output_ids": greedy(model, ids, new_tokens)}
            for ids, new_tokens in cases(CHECKPOINTS[source])
        ]
        made_by = {"onnxruntime-genai": version("onnxruntime-genai"), "onnxruntime": version("onnxruntime")}
        golden = {"made_by": made_by, "checkpoint": source, "options": options, "answers": answers}
        (target / "greedy.json").write_text(json.dumps(golden) + "\n", encoding="utf-8")
        print(name, [answer["output_ids"] for answer in answers])


if __name__ == "__main__":
    main()
