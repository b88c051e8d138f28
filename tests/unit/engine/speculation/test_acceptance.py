from __future__ import annotations

import numpy as np
import pytest

from chi_square import chi_square_deviation
from onnxgen.engine.sampling.rows import Drawn
from onnxgen.engine.speculation.acceptance import accept
from onnxgen.engine.speculation.base import Draft
from onnxgen.graph.cpu.draws import Draw, distribution, draw_tokens

WIDTH = 23
DRAWS = 20_000
LARGEST = 2**64 - 1


def _row(rng):
    return rng.normal(scale=1.5, size=WIDTH).astype(np.float32)


def _dense(ids, shares):
    table = np.zeros(WIDTH)
    table[ids] = shares
    return table


def _drawn(row, **draw):
    return Drawn(row, Draw(**draw))


def _random_draft(rng, count, **draw):
    drawn = [distribution(_row(rng), Draw(1.0, **draw)) for _ in range(count)]
    tokens = [int(rng.choice(ids, p=shares)) for ids, shares in drawn]
    return Draft(tuple(tokens), drawn)


@pytest.mark.parametrize(
    ("target", "guess"),
    [
        ({}, {}),
        ({"top_k": 7}, {"top_p": 0.6}),
        ({"min_p": 0.2, "temperature": 0.7}, {"temperature": 1.9}),
    ],
    ids=["overlapping", "top-k by top-p", "min-p"],
)
def test_what_stands_is_distributed_as_the_target_whatever_the_draft_is(target, guess):
    rng = np.random.default_rng(7)
    rows = [_row(rng), _row(rng), _row(rng)]
    draws = [Draw(**{"temperature": 1.0, **target}) for _ in rows]
    guesses = [distribution(_row(rng), Draw(**{"temperature": 1.0, **guess})) for _ in range(2)]
    targets = [Drawn(row, draw) for row, draw in zip(rows, draws, strict=True)]
    drawn = [rng.choice(ids, p=shares, size=DRAWS) for ids, shares in guesses]
    counts = np.zeros((2, WIDTH))
    for i in range(DRAWS):
        draft = Draft((int(drawn[0][i]), int(drawn[1][i])), guesses)
        stands = accept(draft, targets, seed=11, stream=2, position=3 * i)
        for at, token in enumerate(stands[:2]):
            counts[at, token] += 1
    wanted = [_dense(*distribution(row, draw)) for row, draw in zip(rows, draws, strict=True)]
    for own, shares in zip(counts, wanted, strict=False):
        assert own.sum() > 500  # the second is there only where the first stood
        assert chi_square_deviation(own, shares * own.sum()) < 3.7
    overlap = np.minimum(wanted[0], _dense(*guesses[0])).sum()
    spread = np.sqrt(max(overlap * (1 - overlap), 1e-9) / DRAWS)
    assert abs(counts[1].sum() / DRAWS - overlap) < 4 * spread + 1e-12


def test_equal_distributions_accept_everything():
    rng = np.random.default_rng()
    seed = int(rng.integers(LARGEST, dtype=np.uint64))
    print("seed", seed)
    for draw in ({}, {"top_k": 6}, {"top_p": 0.7}, {"min_p": 0.1}, {"typical_p": 0.8}):
        rows = [_row(rng) for _ in range(9)]
        for position in range(0, 450, 9):
            draws = [Draw(0.8, seed=seed, stream=1, position=position + i, **draw) for i in range(len(rows))]
            tokens = draw_tokens(rows, draws)
            same = [distribution(row, own) for row, own in zip(rows, draws, strict=True)]
            targets = [Drawn(row, own) for row, own in zip(rows, draws, strict=True)]
            stands = accept(
                Draft(tuple(tokens[:-1]), same[:-1]), targets, seed=seed, stream=1, position=position
            )
            assert stands == tuple(tokens)


def test_greedy_targets_give_their_best_tokens_whatever_was_guessed():
    rng = np.random.default_rng()
    rows = [_row(rng) for _ in range(4)]
    best = [int(row.argmax()) for row in rows]
    targets = [_drawn(row) for row in rows]
    for draft in (
        _random_draft(rng, 3),
        Draft((best[0], best[1], (best[2] + 1) % WIDTH)),
        Draft((*best[:2], best[2])),
    ):
        stands = accept(draft, targets, seed=0, stream=0, position=0)
        right = [token == own for token, own in zip(draft.tokens, best, strict=False)]
        assert list(stands) == best[: 1 + (right.index(False) if False in right else len(right))]


def test_a_token_that_the_target_cannot_draw_never_stands_and_is_replaced():
    target = np.array([0, 0, -np.inf, -np.inf], np.float32)
    for position in range(200):
        (token,) = accept(
            Draft((2,), [(np.array([3, 2]), np.array([0.5, 0.5]))]),
            [_drawn(target, temperature=1.0)] * 2,
            seed=5,
            stream=0,
            position=position,
        )
        assert token in (0, 1)


def test_a_token_that_was_drawn_from_something_else_than_is_said_stands_where_the_target_may_draw_it():
    row = np.array([1, 1, -np.inf], np.float32)
    said = [(np.array([0]), np.array([1.0]))]
    targets = [_drawn(row, temperature=1.0)] * 2
    assert accept(Draft((1,), said), targets, seed=1, stream=0, position=0)[0] == 1
    assert len(accept(Draft((2,), said), targets, seed=1, stream=0, position=0)) == 1


def test_a_draft_that_says_no_distribution_counts_as_certain():
    row = np.array([2, 1, 0, -1], np.float32)
    ids, shares = distribution(row, Draw(1.0))
    targets = [_drawn(row, temperature=1.0)] * 2
    counts, stood = np.zeros(4), 0
    for position in range(DRAWS // 2):
        stands = accept(Draft((1,)), targets, seed=3, stream=9, position=2 * position)
        counts[stands[0]] += 1
        stood += len(stands) == 2
    expected = _dense(ids, shares)[:4] * counts.sum()
    assert stood == counts[1]
    assert chi_square_deviation(counts, expected) < 3.7


def test_a_run_repeats_and_positions_streams_and_seeds_differ():
    rng = np.random.default_rng(3)
    targets = [_drawn(_row(rng), temperature=1.0) for _ in range(6)]
    draft = _random_draft(rng, 5)

    def runs(**numbers):
        places = {"seed": LARGEST, "stream": LARGEST, "position": 0, **numbers}
        start = places.pop("position")
        return [accept(draft, targets, position=start + 10 * i, **places) for i in range(30)]

    assert runs() == runs()
    assert len({tuple(runs(**n)) for n in ({}, {"seed": 1}, {"stream": 1}, {"position": 1})}) == 4


def test_what_decides_has_nothing_to_do_with_what_plain_drawing_uses():
    # With the numbers of plain drawing, whether a guess stands would follow from which token it is.
    row = np.zeros(2, np.float32)
    guess = [(np.array([0, 1]), np.array([0.75, 0.25]))]
    stood = {0: 0, 1: 0}
    drawn = draw_tokens([row] * 4000, [Draw(1.0, seed=4, stream=4, position=2 * i) for i in range(4000)])
    for i, token in enumerate(drawn):
        stands = accept(
            Draft((token,), guess), [_drawn(row, temperature=1.0)] * 2, seed=4, stream=4, position=2 * i
        )
        stood[token] += stands[0] == token
    assert stood[1] == drawn.count(1)
    assert abs(stood[0] / drawn.count(0) - 2 / 3) < 0.04


def test_one_token_more_is_the_one_that_is_drawn_without_a_draft():
    rng = np.random.default_rng(8)
    rows = [_row(rng), _row(rng)]
    for position in range(20):
        last = Draw(0.9, top_p=0.9, seed=6, stream=1, position=position + 1)
        best = int(rows[0].argmax())
        stands = accept(
            Draft((best,)), [_drawn(rows[0]), Drawn(rows[1], last)], seed=6, stream=1, position=position
        )
        assert stands == (best, draw_tokens([rows[1]], [last])[0])
