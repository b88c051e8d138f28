import contextlib
import dataclasses

import numpy as np
import pytest

from backend_cases import CONTEXT, make_case
from hash_backend import HashBackend
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import BackendError

VOCAB = 40
KINDS = {
    "slots": {},
    "paged": {"block_size": 4},
    "one-position-blocks": {"block_size": 1},
    "recurrent": {"rewind": False},
}


def fake(kind, **more):
    return FakeBackend(VOCAB, max_context=64, **KINDS[kind], **more)


def open_batch(backend, rows, *, chunk=512, max_tokens=64, switch=None):
    return Batch(backend, num_rows=rows, max_tokens=max_tokens, chunk_tokens=chunk, rope_switch_length=switch)


def check(batch, backend, texts):
    got = batch.forward(range(len(texts)))
    assert [batch.tokens(i).tolist() for i in range(len(texts))] == texts
    np.testing.assert_array_equal(got, [backend.logits_after(t) for t in texts])


@pytest.mark.parametrize("kind", KINDS)
def test_reordered_rows_go_on_as_their_parents(kind):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    backend = fake(kind)
    rows = int(rng.integers(2, 7))
    batch = open_batch(backend, rows, chunk=5)
    texts = [rng.integers(VOCAB, size=rng.integers(1, 14)).tolist() for _ in range(rows)]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    check(batch, backend, texts)
    for _ in range(25):
        computed = backend.num_tokens
        parents = rng.integers(rows, size=rows).tolist()
        batch.reorder(parents)
        texts = [[*texts[p], int(rng.integers(VOCAB))] for p in parents]
        for row, text in enumerate(texts):
            batch.append(row, text[-1])
        check(batch, backend, texts)
        assert backend.num_tokens == computed + rows, "something was computed again"


@pytest.mark.parametrize("kind", KINDS)
def test_any_order_of_edits_reorderings_and_failures_never_shows(kind):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    fail = [False]
    backend = fake(kind, fail_when=lambda _: fail[0])
    batch = open_batch(backend, 4, chunk=6)
    texts = [[int(t)] for t in rng.integers(VOCAB, size=4)]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    for _ in range(150):
        if rng.random() < 0.5:
            parents = rng.integers(4, size=4).tolist()
            batch.reorder(parents)
            texts = [list(texts[p]) for p in parents]
        row = int(rng.integers(4))
        if rng.random() < 0.3:
            length = int(rng.integers(1, len(texts[row]) + 1))
            batch.truncate(row, length)
            del texts[row][length:]
        new = rng.integers(VOCAB, size=rng.integers(0, 5)).tolist()[: 64 - len(texts[row])]
        batch.extend(row, new)
        texts[row] += new
        if rng.random() < 0.3:
            fail[0] = True
            with contextlib.suppress(BackendError):
                batch.forward(range(4))
            fail[0] = False
        if rng.random() < 0.6:
            some = sorted(set(rng.integers(4, size=3).tolist()))
            np.testing.assert_array_equal(batch.forward(some), [backend.logits_after(texts[i]) for i in some])
    check(batch, backend, texts)


def test_logits_go_with_the_rows():
    backend = fake("paged")
    batch = open_batch(backend, 3)
    for row in range(3):
        batch.extend(row, [row, 5])
    before = batch.forward(range(3)).copy()
    batch.reorder([2, 2, 0])
    np.testing.assert_array_equal(batch.forward(range(3)), before[[2, 2, 0]])
    assert backend.num_steps == 1


def test_rows_that_only_change_places_copy_nothing():
    backend = fake("paged")
    batch = open_batch(backend, 3)
    for row in range(3):
        batch.extend(row, [row] * 9)
    batch.forward(range(3))
    batch.reorder([1, 2, 0])
    for row in range(3):
        batch.append(row, 7)
    batch.forward(range(3))
    assert not backend.steps[-1].copies
    assert backend.steps[-1].num_tokens == 3


def test_only_blocks_that_differ_are_copied():
    backend = fake("paged")  # blocks of 4
    batch = open_batch(backend, 2)
    shared = list(range(10))
    batch.extend(0, [*shared, 1, 2, 3])
    batch.extend(1, [*shared, 4, 5])
    batch.forward([0, 1])
    batch.reorder([0, 0])
    batch.append(0, 6)
    batch.append(1, 7)
    batch.forward([0, 1])
    first = backend.steps[0].block_table
    copies = [(c.source, c.target, c.num_tokens) for c in backend.steps[-1].copies]
    assert copies == [(first[0, 2], first[1, 2], 4), (first[0, 3], first[1, 3], 1)]


def test_a_row_gets_the_blocks_that_hold_most_of_it_already():
    backend = fake("paged")
    batch = open_batch(backend, 3)
    batch.extend(0, [9] * 12)
    batch.extend(1, [*range(11), 20])
    batch.extend(2, [*range(11), 21])
    batch.forward(range(3))
    batch.reorder([2, 2, 2])
    batch.append(0, 5)
    batch.forward([0])
    # row 1's blocks lack the last of three, row 0's all of them
    assert len(backend.steps[-1].copies) == 1 + 3


def test_backends_that_cannot_copy_compute_again():
    backend = HashBackend()
    batch = open_batch(backend, 2)
    batch.extend(0, [1, 2, 3])
    batch.extend(1, [4, 5])
    batch.forward([0, 1])
    batch.reorder([0, 0])
    batch.append(0, 6)
    batch.append(1, 7)
    got = batch.forward([0, 1])
    np.testing.assert_array_equal(got, [backend.logits([1, 2, 3, 6]), backend.logits([1, 2, 3, 7])])
    assert backend.steps[-1] == [1, 4]


def test_a_step_that_fails_costs_a_copied_row_its_cache_and_nothing_else():
    fail = [False]
    backend = fake("paged", fail_when=lambda _: fail[0])
    batch = open_batch(backend, 2)
    batch.extend(0, [1, 2, 3, 4, 5])
    batch.extend(1, [6])
    batch.forward([0, 1])
    batch.reorder([0, 0])
    batch.append(0, 8)
    batch.append(1, 9)
    fail[0] = True
    with pytest.raises(BackendError, match="script"):
        batch.forward([0, 1])
    fail[0] = False
    check(batch, backend, [[1, 2, 3, 4, 5, 8], [1, 2, 3, 4, 5, 9]])
    assert backend.steps[-1].num_tokens == 1 + 6


def test_crossing_the_rotary_switch_after_a_reordering_recomputes():
    backend = HashBackend(rope_switch=8)
    backend.capabilities = dataclasses.replace(backend.capabilities, copy_blocks=False)
    batch = open_batch(backend, 2, switch=8)
    batch.extend(0, range(8))
    batch.extend(1, range(10, 20))
    batch.forward([0, 1])
    batch.reorder([0, 0])
    batch.append(0, 30)
    np.testing.assert_array_equal(
        batch.forward([0, 1]), [backend.logits([*range(8), 30]), backend.logits(range(8))]
    )
    batch.reorder([0, 1])
    batch.reorder([0, 0])
    batch.append(1, 31)
    np.testing.assert_array_equal(batch.forward([1]), [backend.logits([*range(8), 30, 31])])


CASES = ["packed", "packed-two-ropes", "batched", "dense", "dense-recurrent", "dense-one-tensor",
         "native", "native-two-ropes", "native-bytes"]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_real_backends_go_on_from_copies(name, tmp_path):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    case = make_case(name, tmp_path, seed)
    rows = 4
    batch = open_batch(case.backend, rows, chunk=8, max_tokens=CONTEXT, switch=case.rope_switch)
    texts = [rng.integers(61, size=rng.integers(3, 9)).tolist() for _ in range(rows)]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    batch.forward(range(rows))
    for _ in range(12):
        parents = rng.integers(rows, size=rows).tolist()
        batch.reorder(parents)
        texts = [[*texts[p], int(rng.integers(61))] for p in parents]
        for row, text in enumerate(texts):
            batch.append(row, text[-1])
        for got, text in zip(batch.forward(range(rows)), texts, strict=True):
            case.check(got[None], text, [len(text) - 1], f"row {text}")
    batch.close()
    case.backend.close()
