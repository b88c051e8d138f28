"""Sampling options in any mixture."""

from __future__ import annotations

import random
from typing import Any

from onnxgen.engine.sampling.options import SamplingOptions


def random_sampling(rng: random.Random, *, vocab: int, eos: int) -> SamplingOptions:
    """Some of all options, with a seed; never so that no token is left of ten.

    Args:
        rng: Decides.
        vocab: Ids are below it.
        eos: An end of answers that is forced now and then.
    """

    def some(value: float, *, off: float = 0.0) -> Any:
        return value if rng.random() < 0.2 else off

    return SamplingOptions(
        temperature=rng.choice([0.0, 1.0, 1.0, 3.0]),
        top_k=rng.choice([0, 0, 5]),
        top_p=some(0.8, off=1.0),
        top_n_sigma=some(1.5),
        typical_p=some(0.7, off=1.0),
        min_p=some(0.1),
        top_a=some(0.4),
        xtc_probability=some(0.5),
        mirostat=rng.choice([*[0] * 8, 1, 2]),
        mirostat_tau=2.0,
        repetition_penalty=some(1.3, off=1.0),
        repetition_window=rng.choice([0, 4]),
        presence_penalty=some(0.5),
        frequency_penalty=some(-0.3),
        dry_multiplier=some(0.8),
        dry_window=rng.choice([0, 6]),
        dry_breakers=rng.choice([(), (2,)]),
        no_repeat_ngram_size=some(3, off=0),
        min_length=some(9, off=0),
        bad_words=rng.choice([(), (), ((1,), (3, 5))]),
        logit_bias=rng.choice([(), (), ((0, 2.0), (4, float("-inf")), (vocab - 2, -1.0))]),
        forced_tokens=rng.choice([*[()] * 4, ((0, 6), (2, 7)), ((1, eos),)]),
        seed=rng.randrange(1 << 32),
    )
