"""Seeded draws against a plain reading of the recipe, number by number in float32."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.facade.og_draws import MersenneUniforms, best_of, nucleus_of
from onnxgen.graph.cpu.heap_order import put_best_first

F = np.float32


def fresh_rng():
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)


def weight(value, highest, temperature):
    with np.errstate(over="ignore", under="ignore"):
        return F(np.exp(np.float64(F(F(value - highest) * F(F(1) / F(temperature))))))


def walk_best(row, top_k, top_p, temperature):
    """Ids and shares, by loops over float32."""
    order = np.arange(len(row), dtype=np.int32)
    top_k = min(top_k, len(row))
    put_best_first(row, order, first=0, last=top_k)
    ids = order[:top_k].tolist()
    shares, total = [weight(row[i], row[ids[0]], temperature) for i in ids], F(0)
    for share in shares:
        total = F(total + share)
    shares = [F(share / total) for share in shares]
    if 0 < top_p < 1:
        reached = F(0)
        for kept, share in enumerate(shares, 1):
            reached = F(reached + share)
            if reached >= F(top_p):
                ids, shares = ids[:kept], shares[:kept]
                break
    return ids, normalized(shares)


def walk_nucleus(row, top_p, temperature):
    """Likewise, sorting in runs of 16, 64, 256, ..."""
    vocab, p = len(row), F(top_p)
    order = np.arange(vocab, dtype=np.int32)
    total, kept, first, last = F(0), 0, 0, min(16, vocab)
    while True:
        put_best_first(row, order, first=first, last=last)
        kept = last
        for i in range(first, last):
            each = weight(row[order[i]], row[order[0]], temperature)
            total = F(total + each)
            if total >= F(p * F(total + F(F(vocab - i - 1) * each))):
                kept = i + 1
                break
        if kept < last or last == vocab:
            break
        first, last = last, min(4 * last, vocab)
    if vocab <= 64:
        if last < vocab:
            put_best_first(row, order, first=last, last=vocab)
        every, reached = F(0), F(0)
        weights = [weight(row[i], row[order[0]], temperature) for i in order]
        for each in weights:
            every = F(every + each)
        for i, each in enumerate(weights):
            reached = F(reached + each)
            if reached >= F(p * every):
                kept = i + 1
                break
    ids = order[:kept].tolist()
    return ids, normalized([weight(row[i], row[ids[0]], temperature) for i in ids])


def normalized(weights):
    total = F(0)
    for each in weights:
        total = F(total + each)
    return [F(each * F(F(1) / total)) for each in weights]


def draw(ids, shares, number):
    """`std::discrete_distribution`."""
    total, reached = 0.0, 0.0
    for share in shares:
        total += float(share)
    for token, share in zip(ids, shares, strict=True):
        reached += float(share) / total
        if reached >= number:
            return token
    return ids[-1]


def rows(rng, width):
    smooth = rng.normal(scale=2.5, size=width).astype(F)
    yield smooth
    yield smooth.astype(np.float16).astype(F)
    yield np.round(smooth)
    yield np.zeros(width, F)
    peaked = smooth.copy()
    peaked[rng.integers(width)] = 30
    yield peaked
    banned = smooth.copy()
    banned[rng.random(width) < 0.7] = np.finfo(F).min
    banned[rng.integers(width)] = 0
    yield banned


def check(found, ids, shares, rng):
    np.testing.assert_array_equal(found.shares, np.array(shares, F))
    np.testing.assert_array_equal(found.values, found.row[ids])
    if len(ids) == 1:
        assert found.token(0) == ids[0]
        return
    for number in rng.random(8).tolist():
        assert found.pick(number) == draw(ids, shares, number)


@pytest.mark.parametrize("width", [2, 64, 65, 300, 1000])
@pytest.mark.parametrize("top_p", [0.0, 0.4, 0.97, 1.0])
def test_the_best_few(width, top_p):
    rng = fresh_rng()
    for row in rows(rng, width):
        top_k, temperature = int(rng.integers(2, 80)), float(rng.uniform(0.2, 3))
        found = best_of(row, top_k, top_p=top_p, temperature=temperature)
        check(found, *walk_best(row, top_k, top_p, temperature), rng)


@pytest.mark.parametrize("width", [2, 16, 17, 64, 65, 300, 5000])
@pytest.mark.parametrize("top_p", [0.0, 0.4, 0.95, 1.0])
def test_a_nucleus(width, top_p):
    rng = fresh_rng()
    for row in rows(rng, width):
        temperature = float(rng.uniform(0.2, 3))
        found = nucleus_of(row, top_p=top_p, temperature=temperature)
        check(found, *walk_nucleus(row, top_p, temperature), rng)


def test_a_nucleus_that_ends_where_a_run_ends_goes_on():
    row = np.full(100, -60, F)
    row[:15], row[15] = 0, -50
    assert len(walk_nucleus(row, 0.999, 1.0)[0]) == 17
    assert len(nucleus_of(row, top_p=0.999, temperature=1.0).values) == 17


@pytest.mark.parametrize("temperature", [1e-45, 1e-12, 1e38, 1e300])
def test_extreme_temperatures_are_fine(temperature):
    row = fresh_rng().normal(size=300).astype(F)
    cold = temperature < 1
    found = best_of(row, 5, top_p=0.0, temperature=temperature)
    assert found.pick(0.5) == (row.argmax() if cold else np.argsort(-row)[2])
    found = nucleus_of(row, top_p=0.5, temperature=temperature)
    assert found.pick(0.5) == row.argmax() if cold else len(found.values) == 150


def test_no_number_draws_a_banned_token():
    row = np.full(40, np.finfo(F).min, F)
    row[[3, 7, 11]] = 1.0
    found = best_of(row, 10, top_p=0.0, temperature=1.0)
    assert {found.pick(number) for number in (0.0, 0.3, 0.5, 0.9, 1 - 2**-53)} == {3, 7, 11}


def test_numbers_are_those_of_the_standards_twister():
    # ISO C++ [rand.predef]: the 10000th word of mt19937 with its default seed is 4123659995
    numbers = MersenneUniforms(5489)
    assert int(numbers.double(9998) * 2**32) == 4123659995
    first = (3499211612 + 581869302 * 2**32) / 2**64
    assert numbers.double(0) == first
    assert MersenneUniforms(5489).double(0) == first
    assert MersenneUniforms(5489).single(0) == np.float32(3499211612) / np.float32(2**32)


def test_large_seeds_differ_in_every_bit():
    assert len({MersenneUniforms(seed).double(0) for seed in (0, 1, 2**31, 2**32, 2**32 + 1, 2**64 - 1)}) == 6


@pytest.mark.parametrize("width", [3, 64, 300])
def test_candidates_know_their_tokens_and_shares(width):
    rng = fresh_rng()
    for row in rows(rng, width):
        for found in (
            best_of(row, 7, top_p=0.9, temperature=0.8),
            nucleus_of(row, top_p=0.8, temperature=1.1),
        ):
            ids = found.ids()
            assert ids.tolist() == [found.token(place) for place in range(len(found.values))]
            assert [found.share(int(token)) for token in ids] == found.shares.tolist()
            missing = sorted(set(range(width)) - set(ids.tolist()))
            assert all(found.share(token) == 0 for token in missing[:3])


def test_what_is_drawn_beyond_another_is_what_there_is_more_of():
    target = best_of(np.log(np.array([0.5, 0.3, 0.2, 1e-9], F)), 3, top_p=0.0, temperature=1.0)
    draft = best_of(np.log(np.array([0.2, 0.5, 0.05, 0.25], F)), 4, top_p=0.0, temperature=1.0)
    drawn = [target.pick_beyond(draft, number) for number in np.linspace(0, 0.999, 1000)]
    assert set(drawn) == {0, 2}
    assert drawn.count(0) / 1000 == pytest.approx(0.3 / 0.45, abs=0.01)
    assert {target.pick_beyond(target, number) for number in (0.1, 0.6, 0.9)} == {0, 1, 2}
