from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from onnxgen.graph.cpu.scores import TRANSFORMS, softmax_zero, transformed, with_second_class


def test_probit_is_the_normal_quantile_within_its_approximation():
    p = np.linspace(0.01, 0.99, 50)[:, None]
    want = [[NormalDist().inv_cdf(value)] for value in p[:, 0]]
    np.testing.assert_allclose(transformed(p, "PROBIT"), want, atol=0.01)


@pytest.mark.parametrize("name", TRANSFORMS[:4])
def test_one_target_has_nothing_to_be_compared_with(name):
    x = np.array([[2.0], [-1.0]])
    assert transformed(x, name).tolist() == x.tolist()


def test_zeros_stay_zeros():
    got = softmax_zero(np.array([[0.0, 1.0, 2.0]]))
    e = np.exp([1.0, 2.0])
    np.testing.assert_allclose(got, [[0, *(e / e.sum())]])


def test_a_single_score_says_both():
    score = np.array([0.2, -3.0])
    assert with_second_class(score, "NONE", probabilities=False).tolist() == [[-0.2, 0.2], [3.0, -3.0]]
    np.testing.assert_allclose(
        with_second_class(score, "NONE", probabilities=True), [[0.8, 0.2], [4.0, -3.0]]
    )
    both = with_second_class(score, "LOGISTIC", probabilities=True)
    np.testing.assert_allclose(both, 1 / (1 + np.exp(-np.stack([-score, score], 1))))


def test_large_scores_do_not_overflow():
    with np.errstate(over="raise", invalid="raise"):
        assert transformed(np.array([[1e4, -1e4]]), "LOGISTIC").tolist() == [[1.0, 0.0]]
        assert transformed(np.array([[1e4, -1e4]]), "SOFTMAX").tolist() == [[1.0, 0.0]]
