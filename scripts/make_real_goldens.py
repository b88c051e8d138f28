"""Write tests/goldens/real/NAME.json: greedy answers of transformers on the dequantized weights of a GGUF file.

Needs PyTorch, transformers and gguf in an environment of their own (see make_goldens.py), and the file:

    python scripts/make_real_goldens.py smollm2 path/to/SmolLM2-135M-Instruct.Q4_1.gguf
    python scripts/make_real_goldens.py gemma3-270m path/to/gemma-3-270m-q4_k_m.gguf

Each of the ``prompts`` holds its text, ``input_ids``, the ``output_ids`` of greedy search in float32 and
``margins``: by how much the logit of each chosen token exceeds the next one. Two correct implementations differ
by rounding, so only prompts whose margins all stay above LEAST_MARGIN are kept, the clearest first.
``text_ids`` are the tokens of text.txt and ``text_nll`` their mean negative log likelihood in nats.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers

TARGET = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "real"
LEAST_MARGIN = 2e-3


@dataclass(frozen=True)
class Plan:
    """How many prompts to keep and how long the answers are."""

    keep: int
    new_tokens: int
    chats: tuple[str, ...]
    texts: tuple[str, ...]
    system: str | None = None


PLANS = {
    "smollm2": Plan(
        keep=10,
        new_tokens=64,
        system="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        chats=(
            "What is the capital of France?",
            "Explain in two sentences why the sky is blue.",
            "Write a short poem about a lighthouse.",
            "What is 17 + 25?",
            "List three fruits and their colours.",
            "Translate 'good morning' into Spanish.",
            "Write a Python function that reverses a string.",
            "How do bees make honey?",
        ),
        texts=(
            "The three primary colours are",
            "Once upon a time, in a small village by the sea,",
            "def fibonacci(n):\n",
            "Water boils at 100 degrees Celsius. At higher altitudes",
            "Photosynthesis is the process by which",
            "The quick brown fox",
            "In 1969, the first human",
            "1, 2, 3, 4, 5,",
        ),
    ),
    "gemma3-270m": Plan(
        keep=5,
        new_tokens=48,
        chats=(),
        texts=(
            "The capital of France is",
            "Once upon a time, in a small village by the sea,",
            "The three primary colours are",
            "Photosynthesis is the process by which",
            "def fibonacci(n):\n",
            "The largest planet in our solar system is",
            "Die Hauptstadt von Deutschland ist",
            "To make a cup of tea, first",
            "A lighthouse is a tower that",
            "In 1969, the first human",
        ),
    ),
}


def greedy(model: Any, ids: list[int], new_tokens: int) -> tuple[list[int], list[float]]:
    """Appended tokens (an end token stays and ends them) and the margin of each choice."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            max_new_tokens=new_tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
    best = torch.cat(out.logits).float().topk(2).values
    return out.sequences[0, len(ids) :].tolist(), (best[:, 0] - best[:, 1]).tolist()


def rendered(tokenizer: Any, plan: Plan) -> list[str]:
    """Prompt texts, chat turns with the model's own template."""
    head = [{"role": "system", "content": plan.system}] if plan.system else []
    chats = [
        tokenizer.apply_chat_template(
            [*head, {"role": "user", "content": chat}], add_generation_prompt=True, tokenize=False
        )
        for chat in plan.chats
    ]
    return chats + list(plan.texts)


def main() -> None:
    """Make the file named on the command line."""
    if len(sys.argv) != 3 or sys.argv[1] not in PLANS:
        raise SystemExit(f"usage: make_real_goldens.py {{{','.join(PLANS)}}} GGUF_FILE")
    name, path = sys.argv[1], Path(sys.argv[2])
    plan = PLANS[name]
    transformers.logging.disable_progress_bar()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    prompts: list[dict[str, Any]] = []
    for text in rendered(tokenizer, plan):
        is_chat = len(prompts) < len(plan.chats)
        ids = tokenizer(text, add_special_tokens=not is_chat)["input_ids"]
        output, margins = greedy(model, ids, plan.new_tokens)
        print(f"{min(margins):8.4f} {len(output):3d} {text[-40:]!r} -> {tokenizer.decode(output)!r}")
        prompts.append(
            {"text": text, "input_ids": ids, "output_ids": output, "margins": [round(m, 4) for m in margins]}
        )
    clear = sorted((p for p in prompts if min(p["margins"]) > LEAST_MARGIN), key=lambda p: -min(p["margins"]))
    full = [p for p in clear if len(p["output_ids"]) == plan.new_tokens]
    if len(full) < plan.keep:
        raise SystemExit(f"only {len(full)} prompts have {plan.new_tokens} clear tokens, wanted {plan.keep}")
    text_ids = tokenizer((TARGET / "text.txt").read_text(encoding="utf-8"))["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([text_ids]), use_cache=False).logits[0].float()
    nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(text_ids[1:])).item()
    golden = {
        "made_by": {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "file": path.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        },
        "prompts": full[: plan.keep],
        "text_ids": text_ids,
        "text_nll": nll,
    }
    target = TARGET / f"{name}.json"
    lines = json.dumps(golden, ensure_ascii=False)
    target.write_text(lines + "\n", encoding="utf-8")
    print(
        f"{len(full[: plan.keep])} of {len(prompts)} prompts, text {len(text_ids)} tokens, nll {nll:.4f}: {target}"
    )


if __name__ == "__main__":
    main()
