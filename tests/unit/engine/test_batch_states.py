"""Hidden states of a `Batch`, and sequences some of whose tokens are embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import CapabilityError

VOCAB, WIDTH = 32, 5
FORMS = [{}, {"block_size": 4}, {"rewind": False}]


def make(form: dict[str, Any], *, rows: int = 2, chunk: int = 3) -> tuple[FakeBackend, Batch]:
    backend = FakeBackend(VOCAB, hidden_size=WIDTH, max_context=64, **form)
    return backend, Batch(backend, num_rows=rows, max_tokens=64, chunk_tokens=chunk)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_hidden_states_are_those_of_the_last_tokens(form: dict[str, Any]) -> None:
    backend, batch = make(form)
    batch.extend(0, [1, 2, 3, 4, 5])
    batch.extend(1, [7])
    batch.forward([0, 1])
    for more in ([], [9], [9, 8, 7, 6]):
        batch.extend(1, more)
        hidden = batch.outputs.hidden_states([1, 0])
        assert np.array_equal(hidden[0], backend.hidden_after(batch.tokens(1)))
        assert np.array_equal(hidden[1], backend.hidden_after(batch.tokens(0)))
        steps = backend.num_steps
        batch.outputs.hidden_states([0, 1])
        assert backend.num_steps == steps, "nothing is computed twice"
    batch.truncate(0, 2)
    assert np.array_equal(batch.outputs.hidden_states([0])[0], backend.hidden_after([1, 2]))


def test_logits_that_were_set_stay_when_hidden_states_are_asked_for() -> None:
    _, batch = make({})
    batch.extend(0, [1, 2])
    own = np.arange(VOCAB, dtype=np.float32)
    batch.set_logits(0, own)
    batch.outputs.hidden_states([0])
    assert np.array_equal(batch.forward([0])[0], own)


def test_a_model_without_hidden_states_says_so() -> None:
    batch = Batch(FakeBackend(VOCAB), num_rows=1, max_tokens=8, chunk_tokens=8)
    batch.extend(0, [1])
    with pytest.raises(CapabilityError, match="no hidden states"):
        batch.outputs.hidden_states([0])


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    chunk=st.integers(1, 9),
    pieces=st.lists(
        st.tuples(
            st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=6),
            st.booleans(),
            st.floats(0, 1) | st.none(),
        ),
        min_size=1,
        max_size=7,
    ),
)
def test_embeddings_of_ids_are_as_good_as_ids(form: dict[str, Any], chunk: int, pieces: Any) -> None:
    backend, batch = make(form, chunk=chunk)
    meant: list[int] = []
    batch.extend(1, [3])
    for ids, embedded, keep in pieces:
        if embedded:
            batch.extend(0, [0] * len(ids), embeds=backend.token_embeddings(np.array(ids)))
        else:
            batch.extend(0, ids)
        meant += ids
        assert np.array_equal(batch.forward([0])[0], backend.logits_after(meant))
        if keep is not None:
            length = max(1, int(keep * len(meant)))
            batch.truncate(0, length)
            del meant[length:]
            assert np.array_equal(batch.forward([1, 0])[1], backend.logits_after(meant))


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_copies_of_rows_know_their_embeddings(form: dict[str, Any]) -> None:
    backend, batch = make(form, rows=3)
    table = backend.token_embeddings(np.arange(VOCAB))
    for row, ids in enumerate(([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [1, 2, 3, 4, 5])):
        batch.extend(row, [0] * 5, embeds=table[ids])  # equal ids, other embeddings
    batch.forward(range(3))
    batch.reorder([1, 1, 0])
    for row in range(3):
        batch.append(row, 11 + row)
    logits = batch.forward(range(3))
    for row, ids in enumerate(([6, 7, 8, 9, 10], [6, 7, 8, 9, 10], [1, 2, 3, 4, 5])):
        assert np.array_equal(logits[row], backend.logits_after([*ids, 11 + row]))
