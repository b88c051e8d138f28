"""Write tests/goldens/NAME.npz: what transformers computes for the tiny checkpoints of tests/checkpoints.py.

Needs PyTorch, which nothing else in the project does. In an environment of its own:

    pip install torch transformers safetensors numpy
    python scripts/make_goldens.py            # all
    python scripts/make_goldens.py qwen3 phi3 # some

Each file holds, for prompt number i, ``prompt_i`` (token ids), ``logits_i`` (float32, every position, from one
forward pass over the whole prompt), ``greedy_i`` (token ids that greedy search appends, ids that end a sequence
treated like any other) and ``greedy_logits_i`` (float32, the logits that each of them was chosen from), and
``made_by``: versions, and a hash over the configuration and the weights they belong to.

Models run in float32 with eager attention. Greedy tokens come from ``generate`` with its cache. Where rotary factors
depend on the length (longrope), transformers uses the long factors for every position of a pass that ends beyond
the original context, and drops the cache when a sequence crosses that border; so each token is chosen as if the whole
sequence had been processed at once, and the script checks that too.

Every mutation that a checkpoint lists must change the logits by more than one percent of their spread, and the
two best tokens of each greedy step must be apart and its tokens differ: a golden that cannot tell right from wrong is refused.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from checkpoints import CHECKPOINTS, TinyCheckpoint, digest, prompt_ids, write_checkpoint

LEAST_EFFECT = 0.01
LEAST_MARGIN = 1e-3
LEAST_DIFFERENT_TOKENS = 4


def load(checkpoint: TinyCheckpoint, folder: Path, changes: Mapping[str, Any] | None = None) -> Any:
    """The checkpoint as a float32 transformers model, its configuration changed first if asked."""
    write_checkpoint(checkpoint, folder, config=changes)
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    wrong = {kind: sorted(names) for kind, names in report.items() if names}
    if wrong:
        raise SystemExit(f"{checkpoint.name}: transformers does not take the weights as they are: {wrong}")
    return model.eval()


def logits_of(model: Any, ids: list[int]) -> np.ndarray:
    """float32 ``[tokens, vocab]`` of one forward pass."""
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def greedy(model: Any, ids: list[int], new_tokens: int) -> tuple[list[int], np.ndarray]:
    """Tokens that `generate` appends, and the logits that each came from."""
    with torch.no_grad():
        out = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            generation_config=transformers.GenerationConfig(
                max_new_tokens=new_tokens, do_sample=False, output_logits=True, return_dict_in_generate=True
            ),
        )
    return out.sequences[0, len(ids) :].tolist(), torch.cat(out.logits).numpy()


def check_cached_steps(name: str, model: Any, ids: list[int], tokens: list[int], logits: np.ndarray) -> None:
    """Each greedy step equals a pass over the whole sequence, and its choice is clear."""
    spread = float(logits.max() - logits.min())
    if len(set(tokens)) < min(LEAST_DIFFERENT_TOKENS, len(tokens)):
        raise SystemExit(f"{name}: greedy tokens {tokens} are too much alike; change the seed")
    for i, token in enumerate(tokens):
        whole = logits_of(model, ids + tokens[:i])[-1]
        error = float(np.abs(whole - logits[i]).max()) / spread
        if error > 1e-5:
            raise SystemExit(f"{name}: greedy step {i} with cache differs from a whole pass by {error:.2e}")
        best = np.sort(logits[i])[-2:]
        if token != int(logits[i].argmax()) or (best[1] - best[0]) / spread < LEAST_MARGIN:
            raise SystemExit(f"{name}: greedy step {i} is a near tie ({best}); change the seed")


def make(checkpoint: TinyCheckpoint, folder: Path) -> dict[str, np.ndarray]:
    """All arrays of one golden file."""
    model = load(checkpoint, folder)
    arrays: dict[str, np.ndarray] = {}
    for i, length in enumerate(checkpoint.prompts):
        ids = prompt_ids(checkpoint, length)
        tokens, steps = greedy(model, ids, checkpoint.new_tokens)
        check_cached_steps(f"{checkpoint.name}/{length}", model, ids, tokens, steps)
        arrays |= {
            f"prompt_{i}": np.array(ids),
            f"logits_{i}": logits_of(model, ids),
            f"greedy_{i}": np.array(tokens),
            f"greedy_logits_{i}": steps,
        }
    longest = prompt_ids(checkpoint, max(checkpoint.prompts))
    right = logits_of(model, longest)
    spread = float(right.max() - right.min())
    print(f"{checkpoint.name}: spread {spread:.1f}", end="", flush=True)
    for what, changes in checkpoint.mutations.items():
        wrong = logits_of(load(checkpoint, folder, changes), longest)
        effect = float(np.abs(wrong - right).max()) / spread
        print(f", {what} {effect:.3f}", end="", flush=True)
        if effect < LEAST_EFFECT:
            raise SystemExit(
                f"\n{checkpoint.name}: changing {what} to {changes} changes nothing ({effect:.2e})"
            )
    print()
    made_by = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "weights": digest(checkpoint),
    }
    return arrays | {"made_by": np.array(json.dumps(made_by))}


def main() -> None:
    """Make the files named on the command line, or all."""
    transformers.logging.disable_progress_bar()
    target = ROOT / "tests" / "goldens"
    target.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CHECKPOINTS:
        with tempfile.TemporaryDirectory() as folder:
            np.savez_compressed(target / f"{name}.npz", **make(CHECKPOINTS[name], Path(folder)))
    total = sum(path.stat().st_size for path in target.glob("*.npz"))
    print(f"{total / 1e6:.2f} MB in {target}")


if __name__ == "__main__":
    main()
