"""Write tests/goldens/sampling.npz: what transformers' logits processors make of random logits and histories.

Needs PyTorch, which nothing else in the project does. In an environment of its own:

    pip install torch transformers numpy
    python scripts/make_sampling_goldens.py

The file holds ``logits`` (float32 ``[cases, vocab]``), ``scores`` (the same, processed; ``-inf`` where a token is removed),
``history_i`` (token ids of case number i), ``cases`` (JSON: for each case our options, how many tokens of the history are
the prompt, and which processors were used), ``eos_ids`` and ``made_by``.

Processors stand in our order, which is that of `onnxgen.engine.sampling.options.SamplingOptions`; transformers itself puts
the one for typical sampling last. A processor that changes nothing in any case is
refused: it could not tell right from wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.generation import logits_process as processors

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "goldens" / "sampling.npz"
VOCAB = 67
EOS_IDS = (3, 40)
BIASES = ((2, 5.5), (7, -100.0), (11, float("-inf")), (12, 0.25), (66, 100.0))
NARROWED = {
    "temperature": (processors.TemperatureLogitsWarper, 0.6),
    "top_k": (processors.TopKLogitsWarper, 9),
    "typical_p": (processors.TypicalLogitsWarper, 0.7),
    "top_p": (processors.TopPLogitsWarper, 0.85),
    "min_p": (processors.MinPLogitsWarper, 0.05),
}


def histories(rng: np.random.Generator) -> Iterator[tuple[np.ndarray, int]]:
    """Token ids and how many of them are the prompt: short and long, of few different tokens and of many."""
    for size, alphabet in ((1, 67), (2, 2), (9, 3), (30, 4), (41, 67), (64, 2)):
        tokens = rng.choice(VOCAB, alphabet, replace=False)[rng.integers(alphabet, size=size)]
        yield tokens, int(rng.integers(1, size + 1))


def bad_words(history: np.ndarray) -> list[list[int]]:
    """Some that the next token could complete, some that it could not."""
    tail = history.tolist()
    words = [[5], [EOS_IDS[1]], [66, 65], [*tail[-1:], 8], [*tail[-3:], 9], [*tail[-2:-1], 10], [*tail, 13]]
    return [*words, [1, *tail, 14]]


def changes(history: np.ndarray, prompt: int) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Our options for changes of logits, and transformers' processors that do the same."""
    length, eos = len(history), list(EOS_IDS)
    for penalty in (1.3, 0.7):
        repetition = processors.RepetitionPenaltyLogitsProcessor(penalty)
        yield {"repetition_penalty": penalty}, [repetition]
    for size in (1, 2, 3):
        yield {"no_repeat_ngram_size": size}, [processors.NoRepeatNGramLogitsProcessor(size)]
    words = bad_words(history)
    yield {"bad_words": words}, [processors.NoBadWordsLogitsProcessor(words)]
    for least in (length, length + 1):
        yield {"min_length": least}, [processors.MinLengthLogitsProcessor(least, eos)]
    for new in (length - prompt, length - prompt + 1):
        least = {"min_length": prompt + new} if new else {"min_length": 0}
        yield least, [processors.MinNewTokensLengthLogitsProcessor(prompt, new, eos)]
    bias = processors.SequenceBiasLogitsProcessor({(token,): value for token, value in BIASES})
    yield {"logit_bias": BIASES}, [bias]
    if length == prompt == 1:
        yield {"forced_tokens": [21]}, [processors.ForcedBOSTokenLogitsProcessor(21)]
    for last in (length + 1, length + 2):
        place = last - 1 - prompt
        yield {"forced_tokens": [(place, 3)]}, [processors.ForcedEOSTokenLogitsProcessor(last, 3)]
    yield (
        {
            "logit_bias": BIASES,
            "repetition_penalty": 1.2,
            "min_length": length + 3,
            "bad_words": words,
            "no_repeat_ngram_size": 2,
        },
        [
            processors.SequenceBiasLogitsProcessor({(token,): value for token, value in BIASES}),
            processors.RepetitionPenaltyLogitsProcessor(1.2),
            processors.MinLengthLogitsProcessor(length + 3, eos),
            processors.NoBadWordsLogitsProcessor(words),
            processors.NoRepeatNGramLogitsProcessor(2),
        ],
    )


def narrowings() -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Our options for what may be drawn, and transformers' warpers: each alone, then neighbours and all together."""
    names = list(NARROWED)
    groups = [[name] for name in names]
    groups += [names[i : i + 2] for i in range(len(names) - 1)]
    groups += [names, ["temperature", "top_p"], ["temperature", "min_p"], ["top_k", "min_p"]]
    for group in groups:
        options = {"temperature": 1.0} | {name: NARROWED[name][1] for name in group}
        yield options, [kind(value) for kind, value in map(NARROWED.__getitem__, group)]


def main() -> None:
    """Write the file."""
    rng = np.random.default_rng(20261130)
    arrays: dict[str, np.ndarray] = {}
    cases: list[dict[str, Any]] = []
    logits: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    for history, prompt in histories(rng):
        for kind, options, chain in [
            *(("change", *case) for case in changes(history, prompt)),
            *(("narrow", *case) for case in narrowings()),
        ]:
            row = rng.normal(scale=rng.choice([1.0, 3.0]), size=VOCAB).astype(np.float32)
            ids, out = torch.tensor(history[None]), torch.tensor(row[None])
            for processor in chain:
                out = processor(ids, out)
            found = out[0].numpy()
            if np.isneginf(found).all() or np.isnan(found).any():
                raise SystemExit(f"{options}: no token is left")
            arrays[f"history_{len(cases)}"] = history
            used = [type(processor).__name__ for processor in chain]
            cases.append({"kind": kind, "options": options, "prompt_tokens": prompt, "processors": used})
            logits.append(row)
            scores.append(found)
    same = {
        name
        for name in {name for case in cases for name in case["processors"]}
        if all(
            np.array_equal(row, score)
            for case, row, score in zip(cases, logits, scores, strict=True)
            if name in case["processors"]
        )
    }
    if same:
        raise SystemExit(f"these changed nothing in any case: {sorted(same)}")
    made_by = f"scripts/make_sampling_goldens.py, transformers {transformers.__version__}, torch {torch.__version__}"
    np.savez_compressed(
        GOLDEN,
        logits=np.array(logits),
        scores=np.array(scores),
        cases=np.array(json.dumps(cases)),
        eos_ids=np.array(EOS_IDS),
        made_by=np.array(made_by),
        **arrays,
    )


if __name__ == "__main__":
    main()
