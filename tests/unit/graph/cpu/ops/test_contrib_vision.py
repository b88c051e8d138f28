from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, run_cpu, run_ort

MS = "com.microsoft"


class Numbers:
    def __init__(self):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)


def group_norm(x, gamma, beta, groups, *, activated):
    """Of ``[batch, channels, height, width]``, in float64."""
    grouped = x.astype(np.float64).reshape(len(x), groups, -1)
    y = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)
    y = y.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    return (y / (1 + np.exp(-y)) if activated else y).astype(np.float32)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_groups_of_channels_are_normalized(last, activation):
    make = Numbers()
    x, gamma, beta = make.floats(2, 6, 3, 4), make.floats(6), make.floats(6)
    options = {"domain": MS, "groups": 3, "activation": activation, "channels_last": last}
    given = np.moveaxis(x, 1, -1) if last else x
    want = group_norm(x, gamma, beta, 3, activated=activation)
    assert_same(
        run_cpu("GroupNorm", given, gamma, beta, **options),
        np.moveaxis(want, 1, -1) if last else want,
        atol=1e-5,
    )
    skip, bias = make.floats(2, 6), make.floats(6)
    total = x + skip[:, :, None, None] + bias[:, None, None]
    got = run_cpu("SkipGroupNorm", given, gamma, beta, skip, bias, outputs=2, **options)
    both = [group_norm(total, gamma, beta, 3, activated=activation), total]
    assert_same(
        list(got), [np.moveaxis(part, 1, -1) if last else part for part in both], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(4, 5), (1, 5), (1, 1)])
def test_boxes_are_cut_out_and_resized(mode, size):
    make = Numbers()
    boxes = make.rng.random((4, 4)).astype(np.float32) * 1.3 - 0.1
    inputs = make.floats(2, 3, 6, 7), boxes, np.array([0, 1, 1, 0], np.int32), np.array(size, np.int32)
    options = {"domain": MS, "mode": mode, "extrapolation_value": 0.5}
    got, want = (run("CropAndResize", *inputs, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-4, atol=1e-5)
