"""Pooling over regions."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort


def _regions(rng, count):
    corners = np.sort(rng.random((count, 2, 2)) * 10 - 1, axis=1)
    return corners.reshape(count, 4).astype(np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 1, 3])
@pytest.mark.parametrize("positions", [None, "half_pixel", "output_half_pixel"])
def test_aligned_regions(mode, ratio, positions):
    rng = fresh_rng()
    x = rng.standard_normal((2, 3, 7, 6)).astype(np.float32)
    args = (x, _regions(rng, 5), rng.integers(0, 2, 5))
    options = {
        "mode": mode,
        "sampling_ratio": ratio,
        "output_height": 3,
        "output_width": 2,
        "spatial_scale": 0.7,
    }
    options |= (
        {"opset": 10} if positions is None else {"opset": 16, "coordinate_transformation_mode": positions}
    )
    assert_same(
        run_cpu("RoiAlign", *args, **options), run_ort("RoiAlign", *args, **options), rtol=1e-3, atol=1e-4
    )


def test_largest_of_cells():
    rng = fresh_rng()
    regions = np.concatenate([rng.integers(0, 2, (9, 1)).astype(np.float32), np.abs(_regions(rng, 9))], 1)
    args = (rng.standard_normal((2, 3, 7, 6)).astype(np.float32), regions)
    options = {"pooled_shape": [2, 3], "spatial_scale": 0.5}
    assert_same(run_cpu("MaxRoiPool", *args, **options), run_ort("MaxRoiPool", *args, opset=11, **options))


def test_no_regions():
    x = np.zeros((1, 2, 3, 3), np.float32)
    got = run_cpu("RoiAlign", x, np.zeros((0, 4), np.float32), np.zeros(0, np.int64), output_height=2)
    assert got.shape == (0, 2, 2, 1)
