"""Which sizes to try for dimensions that a model leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

_LIKELY = (32, 64, 16000, 1, 512, 1536, 48, 2, 44160)
"""Tokens, frames of spectrograms, a second of speech, frames of audio codecs."""

_SIZES = (1, 2, 3, 4, 16, 32, 48, 64, 96, 128, 224, 320, 480, 512, 640, 1000, 1536, 16000, 44160)


def candidate_sizes(names: Sequence[str], given: Mapping[str, int], *, seed: int) -> Iterator[dict[str, int]]:
    """Sizes for open dimensions, the likely ones first: batch 1 and one size for all others, then random ones."""
    first = dict.fromkeys(names[:1], 1)
    for size in _LIKELY:
        yield dict.fromkeys(names, size) | first | dict(given)
    random = np.random.default_rng(seed)
    for _ in range(40):
        yield {name: int(random.choice(_SIZES)) for name in names} | dict(given)
