"""Write tests/goldens/adapters/NAME.npz: what transformers computes for the adapters of tests/adapter_cases.py.

Needs PyTorch, as scripts/make_goldens.py does, whose functions it uses:

    python scripts/make_adapter_goldens.py             # all
    python scripts/make_adapter_goldens.py llama       # some

No adapter library takes part: behind each linear layer that an adapter names, a hook adds ``scale * B (A x)``, with the
matrices in float32. Each file holds ``prompt``, ``logits`` (every position, one pass), ``greedy`` and ``greedy_logits``,
and ``made_by``. An adapter that changes the logits of its base by less than a twentieth of their spread is refused.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from make_goldens import check_cached_steps, greedy, load, logits_of

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from adapter_cases import ADAPTER_CASES, FOLDER, AdapterCase, check_scale
from checkpoints import prompt_ids

LEAST_EFFECT = 0.05
LENGTH = 21


def add_adapter(model: Any, case: AdapterCase) -> None:
    """Let the linear layers of a model add what the adapter says."""
    modules = dict(model.named_modules())
    for name, pair in case.pairs().items():
        modules[name].register_forward_hook(partial(added, *map(torch.tensor, pair), case.scale))


def added(a: Any, b: Any, scale: float, _: Any, inputs: Any, output: Any) -> Any:
    """What a linear layer gives under an adapter."""
    return output + scale * ((inputs[0] @ a.T) @ b.T)


def make(name: str, case: AdapterCase, folder: Path) -> dict[str, np.ndarray]:
    """All arrays of one golden file."""
    check_scale(case)
    model, ids = load(case.base, folder), prompt_ids(case.base, LENGTH)
    before = logits_of(model, ids)
    add_adapter(model, case)
    logits = logits_of(model, ids)
    effect = float(np.abs(logits - before).max() / (before.max() - before.min()))
    print(f"{name}: changes logits by {effect:.3f} of their spread")
    if effect < LEAST_EFFECT:
        raise SystemExit(f"{name}: the adapter changes next to nothing")
    tokens, steps = greedy(model, ids, case.base.new_tokens)
    check_cached_steps(name, model, ids, tokens, steps)
    made_by = {"transformers": transformers.__version__, "torch": torch.__version__, "adapter": case.digest()}
    return {
        "prompt": np.array(ids),
        "logits": logits,
        "greedy": np.array(tokens),
        "greedy_logits": steps,
        "made_by": np.array(json.dumps(made_by)),
    }


def main() -> None:
    """Make the files named on the command line, or all."""
    transformers.logging.disable_progress_bar()
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or ADAPTER_CASES:
        with tempfile.TemporaryDirectory() as folder:
            np.savez_compressed(FOLDER / f"{name}.npz", **make(name, ADAPTER_CASES[name], Path(folder)))


if __name__ == "__main__":
    main()
