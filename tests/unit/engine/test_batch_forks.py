"""Forks of a batch, and random lives of sequences that are appended to, rewound, kept and forked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend_cases import CONTEXT, Case, make_case
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.batch import Batch
from onnxgen.errors import BackendError, StateError

FORMS = {"slots": {}, "paged": {"block_size": 4}, "recurrent": {"rewind": False}}
VOCAB = 32


def open_batch(backend: Any, *, rows: int = 2, **options: Any) -> Batch:
    return Batch(backend, num_rows=rows, max_tokens=CONTEXT, chunk_tokens=5, **options)


def fake(**form: Any) -> FakeBackend:
    return FakeBackend(VOCAB, max_context=64, hidden_size=3, **form)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_fork_goes_on_alone_and_computes_nothing_again(form: dict[str, Any]) -> None:
    backend = fake(**form)
    batch = open_batch(backend)
    texts = [list(range(9)), [3, 1]]
    for row, text in enumerate(texts):
        batch.extend(row, text)
    batch.forward([0, 1])
    before = backend.num_tokens
    fork = batch.fork()
    for one, tokens in ((batch, [7, 8]), (fork, [9, 10])):
        for row, token in enumerate(tokens):
            one.append(row, token)
        for row, logits in enumerate(one.forward([0, 1])):
            assert np.array_equal(logits, backend.logits_after([*texts[row], tokens[row]]))
    assert backend.num_tokens == before + 4
    batch.close()
    fork.append(0, 1)
    assert np.array_equal(fork.forward([0])[0], backend.logits_after([*texts[0], 9, 1]))
    with pytest.raises(StateError, match="closed"):
        batch.fork()
    fork.close()


def test_without_memory_for_two_caches_a_fork_computes_its_own() -> None:
    backend = fake()
    batch = open_batch(backend, rows=1)
    batch.extend(0, range(9))
    batch.forward([0])
    make, calls = backend.create_cache, []

    def refused_once(**sizes: Any) -> Any:
        calls.append(sizes)
        if len(calls) == 1:
            raise BackendError("no memory")
        return make(**sizes)

    backend.create_cache = refused_once
    fork = batch.fork()
    fork.append(0, 4)
    assert fork.cached(0) == 0
    assert np.array_equal(fork.forward([0])[0], backend.logits_after([*range(9), 4]))


def test_a_fork_of_rows_that_wait_for_copies_is_theirs() -> None:
    backend = fake()
    batch = open_batch(backend)
    batch.extend(0, range(9))
    batch.extend(1, [5])
    batch.forward([0, 1])
    batch.reorder([0, 0])
    fork = batch.fork()
    for one, token in ((fork, 3), (batch, 4)):
        one.append(1, token)
        one.append(0, token)
        for logits in one.forward([0, 1]):
            assert np.array_equal(logits, backend.logits_after([*range(9), token]))


@pytest.fixture(
    params=["fake-slots", "fake-paged", "fake-recurrent", "dense-recurrent", "packed", "native"],
    scope="module",
)
def case(request: Any, tmp_path_factory: Any) -> Case:
    return make_case(request.param, tmp_path_factory.mktemp("model"), 23)


TOKENS = st.lists(st.integers(0, 60), min_size=1, max_size=6)
DEEDS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), TOKENS),
        st.tuples(st.sampled_from(["ahead", "one by one"]), TOKENS),
        st.tuples(st.just("rewind"), st.floats(0, 1)),
        st.tuples(st.sampled_from(["forward", "keep", "fork", "hidden", "swap", "all"]), st.none()),
    ),
    min_size=4,
    max_size=25,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), first=st.sampled_from([4, 16, CONTEXT]))
def test_whatever_happened_before_a_sequence_is_what_its_tokens_are(
    case: Case, data: st.DataObject, first: int
) -> None:
    living = [(open_batch(case.backend, first_tokens=first), [[], []])]
    for deed, value in data.draw(DEEDS):
        at = data.draw(st.integers(0, len(living) - 1))
        batch, texts = living[at]
        row = data.draw(st.integers(0, 1))
        if deed == "append" and len(texts[row]) + len(value) <= CONTEXT:
            batch.extend(row, value)
            texts[row] += value
        elif deed == "rewind":
            del texts[row][round(value * len(texts[row])) :]
            batch.truncate(row, len(texts[row]))
        elif deed == "fork" and len(living) < 4:
            living.append((batch.fork(), [text.copy() for text in texts]))
        elif deed == "swap":
            batch.reorder([row, row])
            texts[:] = [texts[row].copy(), texts[row].copy()]
        elif deed == "one by one" and len(texts[row]) + len(value) <= CONTEXT:
            guessed = data.draw(st.booleans()) and bool(texts[row])
            if guessed:
                batch.look_ahead(row, value)
            for token in value[: data.draw(st.integers(0, len(value)))]:
                batch.append(row, token)
                texts[row].append(token)
                if data.draw(st.booleans()):
                    case.check(batch.forward([row]), texts[row], [-1])
        elif not texts[row]:
            continue
        elif deed == "ahead" and len(texts[row]) + len(value) <= CONTEXT:
            ahead = np.stack(batch.look_ahead(row, value))
            case.check(ahead, [*texts[row], *value], range(len(texts[row]) - 1, len(texts[row]) + len(value)))
        elif deed == "forward":
            case.check(batch.forward([row]), texts[row], [-1])
        elif deed == "keep":
            batch.keep_snapshots([row])
        elif deed == "hidden":
            assert case.backend.capabilities.hidden_states
            hidden = batch.outputs.hidden_states([row])
            if case.hidden is not None:
                assert np.allclose(hidden[0], case.hidden(texts[row])[-1], atol=max(case.tolerance, 1e-5))
        elif deed == "all":
            case.check(batch.outputs.all_logits(row, 0, len(texts[row])), texts[row], range(len(texts[row])))
    for batch, texts in living:
        rows = [row for row, text in enumerate(texts) if text]
        for row, logits in zip(rows, batch.forward(rows), strict=True):
            case.check(logits[None], texts[row], [-1])
        batch.close()
