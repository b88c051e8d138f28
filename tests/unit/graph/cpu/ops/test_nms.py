"""Non-maximum suppression."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng, run_cpu, run_ort


@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("threshold", [None, 0.4])
def test_random_boxes_with_equal_scores(centred, threshold):
    rng = fresh_rng()
    for most in (0, 1, 5, 100):
        boxes = rng.random((2, 30, 4)).astype(np.float32)
        scores = np.round(rng.random((2, 3, 30)), 1).astype(np.float32)
        args = [boxes, scores, np.array([most]), np.array([rng.choice([0, 0.2, 0.5])], np.float32)]
        args += [] if threshold is None else [np.array([threshold], np.float32)]
        got = run_cpu("NonMaxSuppression", *args, center_point_box=centred)
        want = run_ort("NonMaxSuppression", *args, opset=11, center_point_box=centred)
        assert got.dtype == np.int64 and got.tolist() == want.tolist()


def test_without_a_number_nothing_is_selected():
    got = run_cpu("NonMaxSuppression", np.ones((1, 3, 4), np.float32), np.ones((1, 1, 3), np.float32))
    assert got.shape == (0, 3) and got.dtype == np.int64


def test_corners_may_be_given_in_any_order():
    boxes = np.array([[[1, 1, 0, 0], [0, 0.1, 1, 1.1], [5, 5, 6, 6]]], np.float32)
    got = run_cpu(
        "NonMaxSuppression",
        boxes,
        np.array([[[0.9, 0.8, 0.7]]], np.float32),
        np.array(3),
        np.array(0.5, np.float32),
    )
    assert got[:, 2].tolist() == [0, 2]
