from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.builder.gguf.keys import ArchitectureKeys, shortest
from onnxgen.errors import CheckpointError


@given(st.floats(allow_nan=False, width=32))
def test_shortening_keeps_the_float32(value):
    assert np.float32(shortest(value)) == np.float32(value)


@given(st.decimals(min_value="0.001", max_value="99999", places=3))
def test_shortening_gives_back_what_was_written(number):
    assert shortest(float(np.float32(float(number)))) == pytest.approx(float(number), rel=1e-7)


def test_shortening_of_usual_numbers():
    assert shortest(9.999999747378752e-06) == 1e-05
    assert shortest(1e6) == 1e6
    assert shortest(0.1) == 0.1  # no float32: left alone
    assert shortest(math.inf) == math.inf and shortest(1e300) == 1e300


def test_a_near_key_is_suggested():
    keys = ArchitectureKeys(Path("m.gguf"), "llama", {"llama.block_cont": 3})
    with pytest.raises(CheckpointError, match=r"m\.gguf: .*'llama.block_count' is missing; did you mean"):
        keys.integer("block_count")
    assert keys.optional_integer("block_count") is None
    assert keys.optional_number("x") is None and keys.optional_word("x") is None
