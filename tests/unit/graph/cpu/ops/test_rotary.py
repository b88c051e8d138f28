"""RotaryEmbedding of the standard."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_reference
from onnxgen.errors import KernelError


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rotary_dim", [0, 4])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("by_position", [False, True])
def test_rotations_give_what_the_reference_gives(interleaved, rotary_dim, flat, by_position):
    rng = fresh_rng()
    batch, heads, seq, dim = 2, 3, 5, 8
    x = rng.standard_normal((batch, seq, heads * dim) if flat else (batch, heads, seq, dim)).astype(
        np.float32
    )
    rows = (20,) if by_position else (batch, seq)
    cos, sin = (rng.standard_normal((*rows, (rotary_dim or dim) // 2)).astype(np.float32) for _ in range(2))
    positions = [rng.integers(0, 20, (batch, seq))] if by_position else []
    options = {"interleaved": interleaved, "rotary_embedding_dim": rotary_dim}
    options |= {"num_heads": heads} if flat else {}
    got = run_cpu("RotaryEmbedding", x, cos, sin, *positions, **options)
    assert_same(got, run_reference("RotaryEmbedding", x, cos, sin, *positions, **options))


def test_a_quarter_turn_swaps_the_halves():
    x = np.array([1, 2, 3, 4], ml_dtypes.bfloat16).reshape(1, 1, 1, 4)
    cos, sin = np.zeros((1, 1, 2), x.dtype), np.ones((1, 1, 2), x.dtype)
    assert run_cpu("RotaryEmbedding", x, cos, sin).reshape(-1).tolist() == [-3, -4, 1, 2]


def test_caches_of_another_width_are_told():
    x, cache = np.ones((1, 1, 1, 8), np.float32), np.ones((1, 1, 3), np.float32)
    with pytest.raises(KernelError, match="3 angles where 4 are rotated"):
        run_cpu("RotaryEmbedding", x, cache, cache)
