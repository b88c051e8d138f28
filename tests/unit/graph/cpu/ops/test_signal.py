"""Fourier transforms, windows, the mel filter bank."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference


@pytest.mark.parametrize("axis", [1, 2, -2])
@pytest.mark.parametrize("length", [None, 3, 16])
@pytest.mark.parametrize(("parts", "options"), [(1, {}), (2, {}), (1, {"onesided": 1}), (2, {"inverse": 1})])
def test_transforms_of_any_length(axis, length, parts, options):
    x = fresh_rng().standard_normal((2, 5, 8, parts)).astype(np.float32)
    size = None if length is None else np.array(length)
    args = (x, size, np.array(axis))
    assert_same(
        run_cpu("DFT", *args, **options), run_ort("DFT", *args, opset=20, **options), rtol=1e-3, atol=1e-4
    )
    old = (x,) if size is None else (x, size)
    assert_same(run_cpu("DFT", *old, opset=17, axis=axis % 4, **options), run_cpu("DFT", *args, **options))


@pytest.mark.parametrize("length", [8, 9])
def test_the_inverse_of_a_onesided_spectrum_is_the_signal(length):
    x = fresh_rng().standard_normal((2, length, 1)).astype(np.float32)
    spectrum = run_cpu("DFT", x, onesided=1)
    assert spectrum.shape == (2, length // 2 + 1, 2)
    assert_same(run_cpu("DFT", spectrum, np.array(length), onesided=1, inverse=1), x, atol=1e-5)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("step", [1, 3, 8])
def test_overlapping_frames(onesided, step):
    rng = fresh_rng()
    signal, window = rng.standard_normal((2, 40, 1)).astype(np.float32), rng.random(8).astype(np.float32)
    for args in (
        (signal, np.array(step), window, np.array(8)),
        (signal, np.array(step), window),
        (signal, np.array(step), None, np.array(8)),
    ):
        got = run_cpu("STFT", *args, onesided=onesided)
        assert_same(got, run_ort("STFT", *args, opset=17, onesided=onesided), rtol=1e-3, atol=1e-4)


def test_frames_of_a_real_signal_without_its_last_dimension():
    signal, window = fresh_rng().standard_normal((2, 40)).astype(np.float32), np.ones(8, np.float32)
    got = run_cpu("STFT", signal, np.array(3), window)
    assert_same(got, run_ort("STFT", signal, np.array(3), window, opset=17), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(op_type, periodic):
    size = np.array(11)
    got = run_cpu(op_type, size, periodic=periodic)
    assert_same(got, run_reference(op_type, size, periodic=periodic, output_datatype=1), atol=1e-6)
    assert run_cpu(op_type, size, periodic=periodic, output_datatype=11).dtype == np.float64


def test_mel_filters():
    args = (*map(np.array, (8, 64, 16000)), np.array(20, np.float32), np.array(7000, np.float32))
    got = run_cpu("MelWeightMatrix", *args)
    assert got.shape == (33, 8)
    assert_same(got, run_ort("MelWeightMatrix", *args, opset=17), atol=1e-6)
