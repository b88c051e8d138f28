import numpy as np
import pytest

from hash_backend import HashBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import BackendError, ContextLengthError, StateError, TokenIdError


def open_batch(backend, rows=1, *, max_tokens=64, chunk=512):
    return Batch(
        backend,
        num_rows=rows,
        max_tokens=max_tokens,
        chunk_tokens=chunk,
        rope_switch_length=backend.rope_switch,
    )


KINDS = [{}, {"block_size": 4}, {"rewind": False}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("chunk", [1, 3, 8, 512])
def test_logits_are_those_of_the_whole_sequence(kind, chunk):
    backend = HashBackend(**kind)
    batch = open_batch(backend, 3, chunk=chunk)
    prompts = [list(range(1, 12)), [7], [3, 3, 3, 4, 4]]
    for row, prompt in enumerate(prompts):
        batch.extend(row, prompt)
    np.testing.assert_array_equal(batch.forward([0, 1, 2]), [backend.logits(p) for p in prompts])
    assert sum(backend.wanted) == 3
    assert all(sum(step) <= max(chunk, 3) for step in backend.steps)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_random_edits_never_show_in_the_logits(kind):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    backend = HashBackend(rope_switch=20, **kind)
    batch = open_batch(backend, 3, max_tokens=40, chunk=5)
    texts = [[int(rng.integers(50))] for _ in range(3)]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    for _ in range(120):
        row = int(rng.integers(3))
        if rng.random() < 0.3:
            length = int(rng.integers(1, len(texts[row]) + 1))
            batch.truncate(row, length)
            del texts[row][length:]
        ids = rng.integers(50, size=rng.integers(0, 6)).tolist()[: 40 - len(texts[row])]
        texts[row] += ids
        batch.extend(row, ids)
        rows = sorted(set(rng.integers(3, size=rng.integers(1, 4)).tolist()))
        if rng.random() < 0.2:
            backend.fail_at = {len(backend.steps)}
        try:
            got = batch.forward(rows)
        except BackendError:
            got = batch.forward(rows)
        backend.fail_at.clear()
        np.testing.assert_array_equal(got, [backend.logits(texts[r]) for r in rows])
        assert [batch.tokens(r).tolist() for r in range(3)] == texts


def test_rows_that_are_up_to_date_cost_nothing():
    backend = HashBackend()
    batch = open_batch(backend)
    batch.extend(0, [1, 2])
    batch.forward([0])
    batch.forward([0])
    assert backend.steps == [[2]]


def test_rewinding_keeps_what_is_cached():
    backend = HashBackend()
    batch = open_batch(backend)
    batch.extend(0, range(10))
    batch.forward([0])
    batch.truncate(0, 6)
    batch.extend(0, [9])
    batch.forward([0])
    assert backend.steps == [[10], [1]]


def test_without_rewind_the_sequence_is_computed_again():
    backend = HashBackend(rewind=False)
    batch = open_batch(backend)
    batch.extend(0, range(10))
    batch.forward([0])
    batch.truncate(0, 6)
    batch.extend(0, [9])
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([*range(6), 9]))
    assert backend.steps == [[10], [7]]


def test_crossing_the_rotary_switch_recomputes_from_the_first_token():
    backend = HashBackend(rope_switch=8)
    batch = open_batch(backend, chunk=3)
    batch.extend(0, range(8))
    batch.forward([0])
    batch.extend(0, [8])
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits(range(9)))
    assert backend.steps == [[3], [3], [2], [9]]


def test_a_long_sequence_that_was_cut_and_grew_again_keeps_to_its_side_of_the_switch():
    backend = HashBackend(rope_switch=8)
    batch = open_batch(backend, chunk=2)
    batch.extend(0, range(1, 13))
    batch.forward([0])
    batch.truncate(0, 3)  # long before and after, but no chunk may end at 4 to 8 tokens
    batch.extend(0, range(20, 30))
    np.testing.assert_array_equal(batch.forward([0]), [backend.logits([1, 2, 3, *range(20, 30)])])


def test_rewinding_across_the_rotary_switch_recomputes_too():
    backend = HashBackend(rope_switch=8)
    batch = open_batch(backend)
    batch.extend(0, range(12))
    batch.forward([0])
    batch.truncate(0, 7)
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits(range(7)))


def test_a_failing_append_leaves_the_sequence_as_it_was():
    backend = HashBackend()
    batch = open_batch(backend, chunk=2)
    batch.extend(0, [1, 2, 3])
    before = batch.forward([0])
    backend.fail_at = {len(backend.steps) + 1}
    with pytest.raises(BackendError, match="told to fail"), batch.transaction():
        batch.extend(0, [4, 5, 6])
        batch.forward([0])
    assert batch.tokens(0).tolist() == [1, 2, 3]
    np.testing.assert_array_equal(batch.forward([0]), before)
    batch.extend(0, [7])
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([1, 2, 3, 7]))


@pytest.mark.parametrize("length", [7, 8, 9, 31, 32])
def test_the_context_can_be_filled_exactly(length):
    backend = HashBackend(max_context=32, block_size=8)
    batch = open_batch(backend, max_tokens=32)
    batch.extend(0, range(length))
    for _ in range(32 - length):
        batch.forward([0])
        batch.extend(0, [5])
    batch.forward([0])
    with pytest.raises(ContextLengthError, match="1 tokens after 32 do not fit the maximum of 32"):
        batch.extend(0, [5])


def test_when_memory_is_short_the_cache_grows_as_needed():
    backend = HashBackend(max_cache_tokens=40)
    batch = open_batch(backend)
    batch.extend(0, range(10))
    batch.forward([0])
    assert batch.cache_bytes == 32 * 8
    backend.max_cache_tokens = None
    batch.extend(0, range(30))
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([*range(10), *range(30)]))
    assert backend.caches[0].closed


def test_memory_that_cannot_be_had_is_an_error_and_nothing_is_lost():
    backend = HashBackend(max_cache_tokens=20)
    batch = open_batch(backend)
    batch.extend(0, range(15))
    batch.forward([0])
    with pytest.raises(BackendError, match="no memory for 30"), batch.transaction():
        batch.extend(0, range(15))
        batch.forward([0])
    batch.extend(0, [1])
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([*range(15), 1]))


@pytest.mark.parametrize("bad", [-1, 50])
def test_token_ids_outside_the_vocabulary_are_refused(bad):
    batch = open_batch(HashBackend())
    with pytest.raises(TokenIdError, match=rf"token id {bad} at 1 is outside \[0, 50\)"):
        batch.extend(0, [1, bad])
    assert batch.length(0) == 0


def test_an_empty_sequence_has_no_logits():
    batch = open_batch(HashBackend())
    with pytest.raises(StateError, match="no tokens"):
        batch.forward([0])


def test_closing_twice_is_harmless_and_using_it_afterwards_is_not():
    backend = HashBackend()
    batch = open_batch(backend)
    batch.extend(0, [1])
    batch.forward([0])
    batch.close()
    batch.close()
    assert backend.caches[0].closed == 1
    with pytest.raises(StateError, match="closed"):
        batch.forward([0])
