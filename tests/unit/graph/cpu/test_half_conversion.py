"""float16 from float32 and back."""

from __future__ import annotations

import numpy as np

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.half_conversion import converted

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def test_every_float16_widens_as_numpy_has_it():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(converted(halves, SINGLE), halves.astype(np.float32))


def test_every_tie_and_many_others_round_as_numpy_has_it():
    rng = fresh_rng()
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[1:] + halves[:-1]) / 2
    bits = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    x = np.concatenate(
        [ties, -ties, np.nextafter(ties, 0), bits, np.float32([np.inf, -np.inf, np.nan])]
    ).astype(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    got = converted(x, HALF)
    np.testing.assert_array_equal(got, want)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


def test_strides_do_not_matter_and_inputs_stay():
    x = fresh_rng().standard_normal((80, 60)).astype(np.float32)
    before = x.copy()
    out = np.zeros((60, 80), np.float16)
    for y in (
        converted(x.T, HALF),
        converted(x.T, HALF, out),
        converted(x.T, HALF, np.zeros((80, 60), HALF).T),
    ):
        np.testing.assert_array_equal(y, x.T.astype(np.float16))
    np.testing.assert_array_equal(x, before)


def test_other_types_and_few_elements():
    assert converted(np.array([1.5, 2.5]), HALF).tolist() == [1.5, 2.5]
    assert converted(np.float32([1.5]), HALF).dtype == HALF
    assert converted(np.zeros((0, 3), np.float32), HALF).shape == (0, 3)
    assert converted(np.array(2, np.float32), HALF).shape == ()
