"""NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_reference
from onnxgen.errors import KernelError


@pytest.mark.parametrize("op_type", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 2), (2, 4, 3, 2)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [None, 1, -2])
def test_losses_give_what_the_reference_gives(op_type, reduction, shape, weighted, ignore):
    rng = fresh_rng()
    x = rng.standard_normal(shape).astype(np.float32)
    target = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    if ignore == -2:
        target[0] = -2
    inputs = [x, target, *([rng.random(shape[1]).astype(np.float32) + np.float32(0.1)] if weighted else [])]
    options = {"reduction": reduction, "opset": 13} | ({} if ignore is None else {"ignore_index": ignore})
    assert_same(run_cpu(op_type, *inputs, **options), run_reference(op_type, *inputs, **options))


def test_the_logarithms_are_a_second_output():
    x = fresh_rng().standard_normal((3, 4)).astype(np.float32)
    _, log_prob = run_cpu("SoftmaxCrossEntropyLoss", x, np.array([0, 1, 2]), outputs=2)
    assert_same(np.exp(log_prob).sum(1), np.ones(3, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_keep_their_type(dtype):
    x = np.zeros((2, 8), dtype)
    assert run_cpu("SoftmaxCrossEntropyLoss", x, np.array([0, 5])) == dtype(np.log(8))


def test_a_class_that_does_not_exist_is_told():
    with pytest.raises(KernelError, match="target 4 is none of 4 classes"):
        run_cpu("NegativeLogLikelihoodLoss", np.zeros((2, 4), np.float32), np.array([0, 4]))
