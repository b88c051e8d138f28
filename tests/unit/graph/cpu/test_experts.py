"""Which experts tokens go to."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.running import run_parts

ROUTE = step_kernel(
    "expert_routes:route", ("scores", "tokens", "experts", "mixing", "normalize", "k", "chosen", "shares")
)


def _routed(scores, k, *, normalize=0, parts=1):
    chosen, shares = np.full((len(scores), k), -9), np.empty((len(scores), k), np.float32)
    tokens, experts = scores.shape
    run_parts(
        ROUTE,
        parts=parts,
        scores=scores.ctypes.data,
        tokens=tokens,
        experts=experts,
        mixing=0,
        normalize=normalize,
        k=k,
        chosen=chosen.ctypes.data,
        shares=shares.ctypes.data,
    )
    return chosen, shares


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("parts", [1, 4])
def test_the_best_come_first_with_their_part_of_the_softmax(k, parts):
    scores = fresh_rng().standard_normal((9, 7)).astype(np.float32) * 5
    chosen, shares = _routed(scores, k, parts=parts)
    np.testing.assert_array_equal(chosen, np.argsort(-scores, axis=1, kind="stable")[:, :k])
    wide = np.exp(scores.astype(np.float64) - scores.max(1, keepdims=True))
    want = np.take_along_axis(wide / wide.sum(1, keepdims=True), chosen, 1)
    np.testing.assert_allclose(shares, want, rtol=4e-6)
    np.testing.assert_allclose(
        _routed(scores, k, normalize=1)[1], want / want.sum(1, keepdims=True), rtol=4e-6
    )


def test_of_equals_the_first_is_taken_and_nan_last():
    scores = np.array([[1, 2, 2, 2, 0], [np.nan, -np.inf, 3, np.nan, 1]], np.float32)
    chosen, _ = _routed(scores, 5)
    assert chosen.tolist() == [[1, 2, 3, 0, 4], [2, 4, 1, 0, 3]]
