"""Random data that can be had again: with a seed from outside, every module and every test gets the same numbers.

Without one, data is fresh in every run. `.ci/run` takes its seed from the commit, so that a run of a commit can be
repeated anywhere, whoever else runs beside a test and in whatever order.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
from collections.abc import Callable

import numpy as np

VARIABLE = "TESTS_SEED"


def repeat(place: str) -> None:
    """From here on, random bits depend on the seed and on ``place`` alone; nothing happens without a seed."""
    seed = os.environ.get(VARIABLE)
    if seed:
        digest = hashlib.blake2b(f"{seed} {place}".encode(), digest_size=16).digest()
        _use(random.Random(digest).getrandbits)


def _use(bits: Callable[[int], int]) -> None:
    secrets.randbits = bits
    np.random.bit_generator.randbits = bits  # pyright: ignore[reportAttributeAccessIssue]
