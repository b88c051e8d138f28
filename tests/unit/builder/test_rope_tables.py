"""Frequencies and tables of rotary embeddings, at the points where the definitions are easy to check."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onnxgen.builder.rope_tables import base_frequencies, frequencies, long_frequencies, table_rows
from onnxgen.builder.spec import Llama3Scaling, LongRopeScaling, RopeKind, RopeSpec, YarnScaling


def test_plain_frequencies_fall_from_one_to_nearly_one_over_theta() -> None:
    plain = frequencies(RopeSpec(RopeKind.DEFAULT, 10000.0, 64))
    assert plain[0] == 1 and plain.dtype == np.float32
    np.testing.assert_allclose(plain[-1], 10000.0 ** (-62 / 64), rtol=1e-6)
    np.testing.assert_allclose(plain[1:] / plain[:-1], 10000.0 ** (-2 / 64), rtol=1e-6)


def test_linear_scaling_divides_and_dynamic_leaves_the_context_alone() -> None:
    plain = base_frequencies(RopeSpec(RopeKind.DEFAULT, 500.0, 32))
    np.testing.assert_array_equal(frequencies(RopeSpec(RopeKind.LINEAR, 500.0, 32, factor=4)), plain / 4)
    np.testing.assert_array_equal(frequencies(RopeSpec(RopeKind.DYNAMIC, 500.0, 32)), plain)


def test_llama3_keeps_short_waves_and_stretches_long_ones() -> None:
    rope = RopeSpec(RopeKind.LLAMA3, 500000.0, 128, factor=8, llama3=Llama3Scaling(8192, 1.0, 4.0))
    plain, scaled = base_frequencies(rope), frequencies(rope)
    waves = 2 * math.pi / plain
    np.testing.assert_allclose(scaled[waves < 8192 / 4], plain[waves < 8192 / 4])
    np.testing.assert_allclose(scaled[waves > 8192], plain[waves > 8192] / 8, rtol=1e-6)
    between = (waves >= 8192 / 4) & (waves <= 8192)
    assert between.any()
    assert (scaled[between] <= plain[between]).all() and (scaled[between] >= plain[between] / 8).all()


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_keeps_fast_dimensions_and_interpolates_slow_ones(truncate: bool) -> None:
    rope = RopeSpec(RopeKind.YARN, 10000.0, 128, factor=16, yarn=YarnScaling(4096, 32, 1, truncate))
    ratio = base_frequencies(rope) / frequencies(rope)
    np.testing.assert_allclose(ratio[:20], 1, rtol=1e-6)
    np.testing.assert_allclose(ratio[-15:], 16, rtol=1e-6)
    assert (np.diff(ratio) >= -1e-5).all()


def test_longrope_divides_by_its_own_factors() -> None:
    scaling = LongRopeScaling(16, (1.0, 2.0, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0), 1.0, 1.0)
    rope = RopeSpec(RopeKind.LONGROPE, 100.0, 8, longrope=scaling)
    plain = base_frequencies(rope)
    np.testing.assert_allclose(frequencies(rope), plain / [1, 2, 3, 4], rtol=1e-6)
    np.testing.assert_allclose(long_frequencies(rope), plain / [5, 6, 7, 8], rtol=1e-6)


def test_stored_divisors_replace_the_scaling() -> None:
    rope = RopeSpec(RopeKind.DEFAULT, 100.0, 8, factors_tensor="rope_freqs.weight")
    divisors = np.array([1, 2, 4, 8], np.float32)
    np.testing.assert_array_equal(frequencies(rope, divisors=divisors), base_frequencies(rope) / divisors)


@pytest.mark.parametrize("rows", [1, 4095, 4096, 9001])
def test_tables_come_in_pieces_that_join(rows: int) -> None:
    angles = frequencies(RopeSpec(RopeKind.DEFAULT, 10000.0, 16))
    cos = np.concatenate(list(table_rows(angles, rows=rows, magnitude=1.5, sine=False)))
    sin = np.concatenate(list(table_rows(angles, rows=rows, magnitude=1.5, sine=True)))
    assert cos.shape == sin.shape == (rows, 8) and cos.dtype == np.float32
    np.testing.assert_allclose(cos**2 + sin**2, 2.25, rtol=1e-5)
    np.testing.assert_array_equal(cos[0], np.full(8, 1.5, np.float32))
    last = np.float32(rows - 1) * angles
    np.testing.assert_allclose(sin[-1], 1.5 * np.sin(last.astype(np.float64)), rtol=1e-6, atol=1e-7)
