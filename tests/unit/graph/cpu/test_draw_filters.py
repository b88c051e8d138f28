"""What may be drawn after each filter, and how often it is, against the definitions in float64."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from kernel_runs import fresh_rng
from logit_rows import LOWEST, SHAPES, good_and_broken, masked, normal, peaked
from narrowed_tokens import CERTAIN, excludes, narrowed, surprise
from onnxgen.graph.cpu.draws import Draw, distribution, draw_tokens, draw_with_surprises

WIDTHS = [1, 2, 3, 63, 64, 65, 1000, 5000, 151936]

FILTERS = {
    "top_n_sigma": (0.3, 1.0, 2.5, 50.0),
    "top_k": (2, 5, 50, 300, 2500),
    "typical_p": (0.0, 0.05, 0.3, 0.9, 0.999),
    "top_p": (1e-9, 0.1, 0.5, 0.9, 0.999),
    "min_p": (1e-4, 0.05, 0.3, 1.0),
    "top_a": (1e-4, 0.2, 0.9, 1.0),
    "xtc_probability": (0.5, 1.0),
}
ALL = Draw(
    0.9,
    top_k=50,
    top_p=0.9,
    top_n_sigma=1.5,
    typical_p=0.9,
    min_p=0.02,
    top_a=0.1,
    xtc_probability=0.5,
    xtc_threshold=0.08,
)
ONE_EACH = [
    Draw(1.2, top_n_sigma=1.0),
    Draw(1.2, typical_p=0.7),
    Draw(1.2, min_p=0.2),
    Draw(1.2, top_a=0.8),
    Draw(1.2, top_p=0.8, min_p=0.1),
    Draw(1.2, top_k=12, min_p=0.1),
    Draw(1.2, xtc_probability=1.0, xtc_threshold=0.08),
    Draw(1.2, mirostat=1, mirostat_mu=4.0),
    Draw(1.2, mirostat=2, mirostat_mu=4.0),
    ALL,
]


def placed(draw, rng):
    return replace(
        draw,
        seed=int(rng.integers(2**64, dtype=np.uint64)),
        stream=int(rng.integers(2**64, dtype=np.uint64)),
        position=int(rng.integers(2**40)),
    )


def any_draw(rng):
    """A few filters at once."""
    chosen = rng.choice(list(FILTERS), size=rng.integers(1, 4), replace=False)
    options = {str(name): FILTERS[str(name)][rng.integers(len(FILTERS[str(name)]))] for name in chosen}
    temperature = float(rng.choice([0.05, 0.3, 0.8, 1, 2, 30]))
    threshold = float(rng.choice([0.0, 0.01, 0.1, 0.3, 0.5, 0.9]))
    return placed(Draw(temperature, **options, xtc_threshold=threshold), rng)


def agrees(row, draw):
    """Whether what may be drawn is what the definition says; None where rounding decides."""
    ids, shares = distribution(row, draw)
    expected, expected_shares, margin = narrowed(row, draw)
    assert len(ids) >= 1
    assert len(np.unique(ids)) == len(ids)
    assert shares.sum() == pytest.approx(1)
    if margin < CERTAIN:
        return None
    order = np.argsort(expected)
    mine = np.argsort(ids)
    if not np.array_equal(ids[mine], expected[order]):
        # what has next to no weight may have none
        lost, won = ~np.isin(expected, ids), ~np.isin(ids, expected)
        return expected_shares[lost].sum() < 1e-30 and shares[won].sum() < 1e-30
    return np.allclose(shares[mine], expected_shares[order], rtol=2e-5, atol=1e-12)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_may_be_drawn_is_what_the_definitions_leave(width, shape):
    rng = fresh_rng()
    clear = 0
    cases = 5 if width > 10_000 else 40
    for _ in range(cases):
        row, draw = shape(rng, width, float(rng.choice([0.01, 0.5, 2, 8]))), any_draw(rng)
        agreed = agrees(row, draw)
        assert agreed is not False, draw
        clear += agreed is True
    assert clear >= cases / 4 or width > 10_000


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("width", [3, 65, 1000, 40_000])
def test_each_filter_alone_leaves_what_its_definition_does(name, width):
    rng = fresh_rng()
    clear = 0
    for value in FILTERS[name]:
        for shape in SHAPES:
            for threshold in (0.001, 0.1) if name == "xtc_probability" else (0.1,):
                draw = placed(Draw(1.0, **{name: value}, xtc_threshold=threshold), rng)
                agreed = agrees(shape(rng, width, 1.5), draw)
                assert agreed is not False, draw
                clear += agreed is True
    assert clear >= 3


FIRST_CUTS = [
    {"typical_p": 0.5},
    {"typical_p": 0.95},
    {"typical_p": 0.9, "top_p": 0.9},
    {"typical_p": 0.9, "min_p": 0.05},
    {"top_p": 0.6, "min_p": 0.02},
    {"top_p": 0.98, "min_p": 0.02},
    {"top_p": 0.9, "min_p": 0.02, "top_n_sigma": 2.5},
    {"top_p": 0.9, "top_a": 0.3},
    {"top_a": 0.05},
    {"mirostat": 2, "mirostat_mu": 7.0},
]


@pytest.mark.parametrize("cut", FIRST_CUTS, ids=str)
def test_it_makes_no_difference_whether_likely_tokens_hold_all_that_is_left(cut):
    """From models that know nothing to such that are sure; tokens far below the best weigh much, or nothing."""
    rng = fresh_rng()
    clear = 0
    for height in (0, 5, 7, 9, 9, 20, 20):
        for width in (4111, 20_000):
            for _ in range(2):
                row = normal(rng, width, 1.5)
                row[rng.integers(width, size=8)] += height + rng.uniform(-1, 1, size=8).astype(np.float32)
                agreed = agrees(row, placed(Draw(0.8, **cut), rng))
                assert agreed is not False
                clear += agreed is True
    assert clear >= 6


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("width", WIDTHS)
def test_mirostat_leaves_what_its_paper_says(version, width):
    rng = fresh_rng()
    clear = 0
    for mu in (1.0, 6.0, 40.0) if width > 10_000 else (0.01, 1.0, 3.0, 6.0, 10.0, 40.0):
        for shape in SHAPES:
            row = shape(rng, width, float(rng.choice([0.5, 2, 8])))
            draw = Draw(float(rng.choice([0.5, 1, 2])), mirostat=version, mirostat_mu=mu, top_k=2, min_p=0.9)
            agreed = agrees(row, placed(draw, rng))
            assert agreed is not False, draw
            clear += agreed is True
    assert clear >= 4


@pytest.mark.parametrize("draw", ONE_EACH)
@pytest.mark.parametrize("width", [30, 3000])
def test_tokens_are_drawn_as_often_as_they_are_likely(draw, width):
    rng = np.random.default_rng(width)
    row = rng.normal(scale=1.5, size=width).astype(np.float32)
    count = 20_000
    draws = [replace(draw, seed=7, stream=3, position=i) for i in range(count)]
    tokens = np.array(draw_tokens([row] * count, draws))
    shares = np.zeros(width)
    # XTC excludes at some positions, by a number that has nothing to do with the draw
    for excluded in {0.0, 1.0} if 0 < draw.xtc_probability < 1 else {draw.xtc_probability}:
        ids, own, margin = narrowed(row, replace(draw, xtc_probability=excluded))
        assert margin > CERTAIN
        chance = draw.xtc_probability if excluded else 1 - draw.xtc_probability
        shares[ids] += own * (chance if 0 < draw.xtc_probability < 1 else 1)
    assert shares[tokens].min() > 0
    assert _chi_square_deviation(np.bincount(tokens, minlength=width), shares * count) < 3.7


def _chi_square_deviation(counts, expected):
    """How far chi-square is off in standard deviations of a normal variable (Wilson and Hilferty); inputs are fixed."""
    common = expected >= 5
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    used = expected > 0
    assert counts[~used].sum() == 0
    freedom = used.sum() - 1
    if freedom == 0:
        return 0.0
    square = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    spread = 2 / (9 * freedom)
    return ((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


def test_xtc_excludes_as_often_as_asked_whatever_is_drawn():
    row = np.array([3, 3, 3, 0, 0, 0], np.float32)
    draws = [Draw(1.0, xtc_probability=0.3, xtc_threshold=0.2, seed=5, position=i) for i in range(20_000)]
    kept = np.array([len(distribution(row, draw)[0]) for draw in draws[:2000]])
    assert kept.tolist() == [4 if excludes(draw) else 6 for draw in draws[:2000]]
    tokens = np.array(draw_tokens([row] * len(draws), draws))
    heavy = math.exp(3) / (3 * math.exp(3) + 3)
    assert np.mean(tokens < 2) == pytest.approx(0.7 * 2 * heavy, abs=0.015)


def test_xtc_keeps_the_least_likely_of_the_top_choices():
    row = np.log(np.array([0.4, 0.3, 0.2, 0.06, 0.04], np.float32))
    for threshold, left in ((0.1, [2, 3, 4]), (0.35, [0, 1, 2, 3, 4]), (0.25, [1, 2, 3, 4]), (0.0, [4])):
        draw = Draw(1.0, xtc_probability=1.0, xtc_threshold=threshold)
        assert sorted(distribution(row, draw)[0].tolist()) == left
    equal = np.zeros(5, np.float32)
    assert distribution(equal, Draw(1.0, xtc_probability=1.0, xtc_threshold=0.2))[0].tolist() == [4]


@pytest.mark.parametrize("draw", ONE_EACH)
def test_what_is_drawn_is_in_the_distribution_and_all_of_it_is_drawn(draw):
    rng = fresh_rng()
    row = peaked(rng, 90, 1.0)
    draws = [replace(draw, position=i, xtc_probability=round(draw.xtc_probability)) for i in range(5000)]
    ids, shares = distribution(row, draws[0])
    met = set(draw_tokens([row] * len(draws), draws))
    assert met <= set(ids.tolist())
    assert met >= set(ids[shares > 0.005].tolist())


@pytest.mark.parametrize(
    "draw", [Draw(), Draw(0.8), Draw(0.8, top_k=40), Draw(0.8, top_p=0.9), Draw(0.8, top_k=40, top_p=0.9)]
)
def test_a_distribution_without_filters_is_that_of_the_softmax(draw):
    rng = fresh_rng()
    for width in WIDTHS:
        row = peaked(rng, width, 1.5)
        if draw.temperature == 0:
            assert [part.tolist() for part in distribution(row, draw)] == [[row.argmax()], [1.0]]
        else:
            assert agrees(row, draw) is not False


def test_a_row_depends_on_itself_alone():
    rng = fresh_rng()
    rows = [SHAPES[i % 4](rng, 3000, 2.0) for i in range(40)]
    rows[7][3] = np.nan
    draws = [placed(ONE_EACH[i % len(ONE_EACH)], rng) if i % 3 else any_draw(rng) for i in range(40)]
    alone = [
        tuple(part[0] for part in draw_with_surprises([row], [draw]))
        for row, draw in zip(rows, draws, strict=True)
    ]
    for size in (2, 3, 16, 40):
        order = rng.permutation(40)[:size].tolist()
        tokens, surprises = draw_with_surprises([rows[i] for i in order], [draws[i] for i in order])
        assert list(zip(tokens, surprises, strict=True)) == [alone[i] for i in order]
        assert draw_tokens([rows[i] for i in order], [draws[i] for i in order]) == tokens


def test_logits_stay_as_they_are():
    rng = fresh_rng()
    row = peaked(rng, 3000, 1.0)
    before = row.copy()
    for draw in ONE_EACH:
        draw_tokens([row], [draw])
        distribution(row, draw)
    assert np.array_equal(row, before)


@pytest.mark.parametrize("draw", ONE_EACH)
@pytest.mark.parametrize("width", [1, 17, 1000])
@pytest.mark.parametrize("broken", [np.nan, np.inf, None])
def test_a_broken_row_has_no_token_and_its_neighbours_have_theirs(draw, width, broken):
    good, bad = good_and_broken(fresh_rng(), width, broken)
    tokens, surprises = draw_with_surprises([good, bad, good], [draw] * 3)
    assert tokens[1] == -1
    assert surprises[1] is None
    assert tokens[0] == tokens[2] >= 0
    assert [len(part) for part in distribution(bad, draw)] == [0, 0]


@pytest.mark.parametrize("draw", ONE_EACH)
@pytest.mark.parametrize("width", WIDTHS)
def test_of_equal_logits_some_can_be_drawn(draw, width):
    flat = np.zeros(width, np.float32)
    ids, shares = distribution(flat, draw)
    assert np.allclose(shares, 1 / len(ids))
    assert draw_tokens([flat], [draw])[0] in ids
    if draw.typical_p == 0.7:
        assert len(ids) == pytest.approx(0.7 * width, abs=1)


@pytest.mark.parametrize("temperature", [1e-300, 1e-15, 1e-3, 1e3, 1e6, 1e300])
@pytest.mark.parametrize("draw", ONE_EACH)
def test_extreme_temperatures_leave_what_they_should(draw, temperature):
    rng = fresh_rng()
    row = masked(rng, 500, 1.0)
    hot = replace(draw, temperature=temperature)
    ids, _ = distribution(row, hot)
    assert (row[ids] > -1e20).all()
    assert draw_tokens([row], [hot])[0] in ids
    if temperature < 1e-10:
        assert (row[ids] == row.max()).all()


@pytest.mark.parametrize("forbidden", [-np.inf, LOWEST])
def test_what_is_forbidden_is_never_drawn_and_moves_no_filter(forbidden):
    """A row with forbidden tokens leaves what the row without them does."""
    rng = fresh_rng()
    short = normal(rng, 200, 1.5)
    places = np.sort(rng.permutation(900)[:200])
    row = np.full(900, forbidden, np.float32)
    row[places] = short
    for draw in ONE_EACH:
        if draw.mirostat == 1:
            continue  # counts the vocabulary
        for position in range(5):
            own = replace(draw, position=position)
            if narrowed(short, own)[2] < CERTAIN:
                continue
            ids, shares = distribution(row, own)
            expected, expected_shares = distribution(short, own)
            assert ids.tolist() == places[expected].tolist()
            assert np.allclose(shares, expected_shares, rtol=1e-5)


@pytest.mark.parametrize("version", [1, 2])
def test_surprises_are_those_of_the_whole_row(version):
    rng = fresh_rng()
    row = normal(rng, 3000, 2.0)
    draws = [Draw(0.8, mirostat=version, mirostat_mu=5.0, position=i) for i in range(50)]
    tokens, surprises = draw_with_surprises([row] * 50, draws)
    for token, bits in zip(tokens, surprises, strict=True):
        assert bits == pytest.approx(surprise(row, 0.8, token), abs=1e-4)
    if version == 2:
        assert max(bits for bits in surprises if bits is not None) <= 5.0 + 1e-4


def test_only_mirostat_is_surprised():
    row = np.arange(5, dtype=np.float32)
    draws = [
        Draw(1.0),
        Draw(mirostat=2),
        Draw(1.0, mirostat=1, top_k=1),
        Draw(1.0, mirostat=2),
        Draw(1.0, min_p=0.1),
    ]
    _, surprises = draw_with_surprises([row] * 5, draws)
    assert [bits is None for bits in surprises] == [True, True, True, False, True]
    assert draw_with_surprises([], []) == ([], [])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tau", [2.0, 3.0])
def test_feedback_brings_the_mean_surprise_to_its_target(version, tau):
    """Zipf-like rows, whose surprises without limit would be higher."""
    rng = np.random.default_rng(3)
    base = -1.5 * np.log(np.arange(1, 20_001))
    mu, surprises = 2 * tau, []
    for position in range(600):
        row = (base + rng.normal(scale=0.3, size=len(base))).astype(np.float32)
        _, (bits,) = draw_with_surprises(
            [row], [Draw(1.0, mirostat=version, mirostat_mu=mu, position=position)]
        )
        surprises.append(bits)
        mu -= 0.1 * (bits - tau)
    assert np.mean(surprises[100:]) == pytest.approx(tau, abs=0.25)
