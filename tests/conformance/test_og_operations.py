"""Random sequences of calls give the same values with ``import onnxruntime_genai as og`` and ``import onnxgen as og``.

Calls whose meaning differs on purpose (see the guide for users of onnxruntime-genai) are left out: whatever comes after the last
row is finished, and what follows a rewind before tokens were appended.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import onnxgen
from bigram_models import write_bigram_folder
from onnxgen.errors import OnnxgenError

genai = pytest.importorskip("onnxruntime_genai", reason="needs the extra: interop")

pytestmark = pytest.mark.interop

VOCAB, CONTEXT = 40, 24


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    table = np.random.default_rng(3).normal(size=(VOCAB, VOCAB)).astype(np.float32)
    path = write_bigram_folder(
        tmp_path_factory.mktemp("model") / "bigrams", table, eos=(3, 11), pad=1, context=CONTEXT
    )
    return onnxgen.Model(path), genai.Model(str(path))


def random_options(rng) -> dict[str, Any]:
    options: dict[str, Any] = {
        "batch_size": int(rng.choice([1, 1, 1, 2, 3])),
        "max_length": int(rng.integers(4, CONTEXT + 1)),
    }
    if rng.random() < 0.3:
        options["min_length"] = int(rng.integers(12))
    if rng.random() < 0.3:
        options["repetition_penalty"] = float(rng.choice([0.7, 1.3]))
    if rng.random() < 0.3:
        options["no_repeat_ngram_size"] = int(rng.integers(1, 4))
    if rng.random() < 0.5:
        options |= {
            "do_sample": True,
            "random_seed": int(rng.integers(1000)),
            "top_k": int(rng.integers(2, 30)),
        }
    return options


def outcome(generator, name, *arguments):
    """What a call gives; of errors only that there is one."""
    try:
        value = getattr(generator, name)(*arguments)
    except (OnnxgenError, RuntimeError):  # theirs have no types
        return "error"
    return value.tolist() if isinstance(value, np.ndarray) else value


class Pair:
    """A generator of each, driven alike."""

    def __init__(self, models, options) -> None:
        self.options = options
        self.generators = []
        for og, model in zip((onnxgen, genai), models, strict=True):
            params = og.GeneratorParams(model)
            params.set_search_options(**options)
            self.generators.append(og.Generator(model, params))

    def call(self, name, *arguments):
        ours, theirs = (outcome(generator, name, *arguments) for generator in self.generators)
        assert ours == theirs, f"{name}{arguments} of {self.options}"
        return ours


def test_random_calls_give_the_same(models):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(150):
        walk(Pair(models, random_options(rng)), rng)


def walk(pair, rng) -> None:
    rows = pair.options["batch_size"]
    rewound = drawn = False
    for _ in range(int(rng.integers(3, 25))):
        length = pair.call("token_count")
        pair.call("get_sequence", int(rng.integers(rows)))
        done = length == pair.options["max_length"] or (not rewound and pair.call("is_done"))
        choice = rng.random()
        if choice < 0.25 or rewound:
            ids = rng.integers(2, VOCAB, (rows, int(rng.integers(0 if rng.random() < 0.1 else 1, 6))))
            if pair.call("append_tokens", (ids if rows > 1 else ids[0]).astype(np.int32)) != "error":
                rewound = False
        elif choice < 0.35:
            # theirs continues its random numbers after a rewind
            if drawn and pair.options.get("do_sample"):
                continue
            length = int(rng.integers(pair.call("token_count") + 2)) if rows == 1 else 0
            rewound = pair.call("rewind_to", length) != "error"
        elif done:
            continue
        elif choice < 0.75:
            if pair.call("generate_next_token") != "error":
                drawn = True
                pair.call("get_next_tokens")
        elif length and not finished(pair):
            pair.call("get_logits")
            if choice > 0.9:
                pair.call("set_logits", rng.normal(size=(rows, 1, VOCAB)).astype(np.float32))


def finished(pair) -> bool:
    """Whether a row has ended, whose logits then are NaN with us."""
    return bool(np.isnan(pair.generators[0].get_logits()).any())
