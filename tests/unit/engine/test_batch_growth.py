import numpy as np
import pytest

from backend_cases import CASE_NAMES, CONTEXT, make_case
from hash_backend import HashBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import BackendError


def open_batch(backend, rows=1, *, first, rope_switch=None, chunk=512, max_tokens=CONTEXT):
    return Batch(
        backend,
        num_rows=rows,
        max_tokens=max_tokens,
        chunk_tokens=chunk,
        rope_switch_length=rope_switch,
        first_tokens=first,
    )


@pytest.mark.parametrize("name", CASE_NAMES)
def test_a_cache_that_grows_gives_what_one_of_full_size_gives(tmp_path, name):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    case = make_case(name, tmp_path, seed)
    vocab = case.backend.vocab_size
    grown, whole = (
        open_batch(case.backend, 2, first=first, rope_switch=case.rope_switch) for first in (3, None)
    )
    texts = [rng.integers(1, vocab, 2).tolist(), rng.integers(1, vocab, 1).tolist()]
    for batch in (grown, whole):
        for row, text in enumerate(texts):
            batch.extend(row, text)
    sizes = set()
    while len(texts[0]) < CONTEXT:
        logits = grown.forward([0, 1])
        np.testing.assert_array_equal(logits, whole.forward([0, 1]))
        for row, text in enumerate(texts):
            case.check(logits[row : row + 1], text, [-1])
            text.append(int(rng.integers(1, vocab)))
            for batch in (grown, whole):
                batch.append(row, text[-1])
        sizes.add(grown.cache_bytes)
    if not name.startswith("dense"):  # these take what sequences need in any case
        assert len(sizes) > 2


@pytest.mark.parametrize("kind", [{}, {"block_size": 4}, {"rewind": False}], ids=str)
def test_what_is_cached_is_taken_over(kind):
    backend = HashBackend(**kind)
    batch = open_batch(backend, first=8)
    batch.extend(0, range(6))
    batch.forward([0])
    for token in range(20):
        batch.append(0, token)
        batch.forward([0])
    assert [sum(step) for step in backend.steps] == [6, *[1] * 20]
    assert len(backend.caches) == 3
    assert [cache.closed for cache in backend.caches] == [True, True, False]


def test_without_memory_for_both_it_is_computed_again():
    backend = HashBackend()
    batch = open_batch(backend, first=8)
    batch.extend(0, range(8))
    batch.forward([0])
    create = backend.create_cache

    def short(**sizes):
        if not backend.caches[-1].closed:
            raise BackendError("no memory beside the present one")
        return create(**sizes)

    backend.create_cache = short
    batch.append(0, 9)
    np.testing.assert_array_equal(batch.forward([0])[0], backend.logits([*range(8), 9]))
    assert [sum(step) for step in backend.steps] == [8, 9]


def test_copies_that_wait_are_not_lost_when_the_cache_grows():
    backend = HashBackend(block_size=4)
    batch = open_batch(backend, 3, first=8)
    texts = [[1, 2, 3, 4, 5, 6, 7], [1, 2, 9, 4, 5, 6, 7], [3, 2, 3, 4, 5, 6, 8]]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    batch.forward([0, 1, 2])
    batch.reorder([2, 2, 1])
    texts = [texts[2], texts[2], texts[1]]
    for row in range(3):
        texts[row] = [*texts[row], 11, 12 + row]
        batch.extend(row, texts[row][-2:])
    np.testing.assert_array_equal(batch.forward([0, 1, 2]), [backend.logits(t) for t in texts])
