import numpy as np
import pytest

from onnxgen.engine.sampling.candidates import best_tokens, candidates, nucleus_size


def by_hand(row, temperature, top_k, top_p):
    """Textbook version: sort everything, cut, cut."""
    order = np.argsort(-row, kind="stable")
    if 0 < top_k < len(row):
        order = order[:top_k]
    p = np.exp((row[order].astype(np.float64) - row.max()) / temperature)
    p /= p.sum()
    if top_p < 1:
        reached = np.cumsum(p)
        keep = int(np.argmax(reached >= top_p - 1e-12)) + 1 if (reached >= top_p - 1e-12).any() else len(p)
        order, p = order[:keep], p[:keep]
    return dict(zip(order.tolist(), p / p.sum(), strict=True))


@pytest.mark.parametrize("vocab", [1, 2, 17, 300, 5000])
@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 1.0), (5, 1.0), (5, 0.7), (0, 0.9), (0, 0.999), (10**9, 0.5)]
)
def test_candidates_equal_the_textbook(vocab, top_k, top_p):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    row = np.random.default_rng(seed).normal(scale=2, size=vocab).astype(np.float32)
    for temperature in (0.3, 1.0, 3.0):
        ids, weights = candidates(row, temperature=temperature, top_k=top_k, top_p=top_p)
        expected = by_hand(row, temperature, top_k, top_p)
        assert set(ids.tolist()) == set(expected)
        np.testing.assert_allclose(
            weights / weights.sum(), [expected[i] for i in ids.tolist()], rtol=1e-9, atol=1e-300
        )


def test_a_nucleus_wider_than_the_first_look_is_found():
    flat = np.zeros(4000, np.float32)
    ids, weights = candidates(flat, temperature=1.0, top_k=0, top_p=0.75)
    assert ids.tolist() == list(range(3000))
    assert len(weights) == 3000


def test_the_nucleus_includes_the_token_that_reaches_it():
    weights = np.array([0.5, 0.25, 0.125, 0.125])
    assert [nucleus_size(weights, p) for p in (0.0, 0.5, 0.51, 0.75, 1.0)] == [1, 1, 2, 2, 4]
    assert nucleus_size(weights[:1], 0.75, total=1.0) is None


def test_ties_go_to_the_lower_id():
    row = np.array([1, 3, 3, 3, 0], np.float32)
    assert best_tokens(row, 2).tolist() == [1, 2]
    assert best_tokens(row, 5).tolist() == [1, 2, 3, 0, 4]


def test_a_tiny_temperature_leaves_the_best_token():
    _, weights = candidates(np.array([1, 2, 3], np.float32), temperature=1e-300, top_k=0, top_p=1.0)
    np.testing.assert_array_equal(weights, [0, 0, 1])
