"""Sampling between pixels."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort, run_reference


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("rank", "mode"), [(2, "nearest"), (2, "linear"), (2, "cubic"), (3, "nearest"), (3, "linear")]
)
def test_every_mode_and_padding(rank, mode, padding, align):
    rng = fresh_rng()
    for _ in range(5):
        x = rng.standard_normal((2, 3, *rng.integers(1, 6, rank))).astype(np.float32)
        grid = (rng.random((2, *rng.integers(1, 5, rank), rank)) * 3 - 1.5).astype(np.float32)
        options = {"mode": mode, "padding_mode": padding, "align_corners": align, "opset": 20}
        got = run_cpu("GridSample", x, grid, **options)
        assert_same(got, run_ort("GridSample", x, grid, **options), rtol=1e-3, atol=1e-4)


def test_the_names_of_modes_changed_with_version_20():
    rng = fresh_rng()
    x, grid = (rng.standard_normal(s).astype(np.float32) for s in ((1, 1, 4, 5), (1, 2, 3, 2)))
    for old, new in (("bilinear", "linear"), ("bicubic", "cubic")):
        assert_same(
            run_cpu("GridSample", x, grid, opset=16, mode=old), run_cpu("GridSample", x, grid, mode=new)
        )
        same = run_cpu("GridSample", x, grid, domain="com.microsoft", mode=old)
        assert_same(same, run_cpu("GridSample", x, grid, mode=new))


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 3), (2, 1, 1, 3)])
def test_affine_grids(size, align):
    rank = len(size) - 2
    theta = fresh_rng().standard_normal((2, rank, rank + 1)).astype(np.float32)
    args = (theta, np.array(size))
    got = run_cpu("AffineGrid", *args, align_corners=align)
    assert_same(got, run_reference("AffineGrid", *args, align_corners=align), atol=1e-5)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("offset_group", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_deformable_convolution(group, offset_group, masked):
    rng = fresh_rng()

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    x, w, b = normal(2, 4, 6, 5), normal(6, 4 // group, 3, 2), normal(6)
    options = {"group": group, "offset_group": offset_group, "kernel_shape": [3, 2], "opset": 19}
    options |= {"pads": [1, 1, 1, 0], "strides": [2, 1], "dilations": [1, 2]}
    out = (3, 4)
    args = [x, w, normal(2, offset_group * 12, *out), b]
    args += [normal(2, offset_group * 6, *out)] if masked else []
    assert_same(
        run_cpu("DeformConv", *args, **options), run_ort("DeformConv", *args, **options), rtol=1e-3, atol=1e-4
    )
