"""Snapshots of sequences that a backend cannot rewind by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend_cases import CONTEXT, Case, make_case
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.batch import Batch

VOCAB = 32


def recurrent() -> tuple[FakeBackend, Batch]:
    backend = FakeBackend(VOCAB, rewind=False, max_context=64)
    return backend, Batch(backend, num_rows=2, max_tokens=64, chunk_tokens=8)


def test_going_back_to_a_snapshot_computes_nothing_again() -> None:
    backend, batch = recurrent()
    batch.extend(0, range(20))
    batch.keep_snapshots([0])
    batch.extend(0, [1, 2, 3])
    batch.forward([0])
    before = backend.num_tokens
    batch.truncate(0, 20)
    assert np.array_equal(batch.forward([0])[0], backend.logits_after(range(20)))
    assert backend.num_tokens == before
    batch.extend(0, [4, 5])
    batch.forward([0])
    batch.truncate(0, 21)
    assert np.array_equal(batch.forward([0])[0], backend.logits_after([*range(20), 4]))
    assert backend.num_tokens == before + 3, "behind the snapshot, only what follows it"
    batch.truncate(0, 10)
    assert np.array_equal(batch.forward([0])[0], backend.logits_after(range(10)))
    assert backend.num_tokens == before + 13, "before it, from the beginning"


def test_logits_that_were_set_are_not_part_of_a_snapshot() -> None:
    backend, batch = recurrent()
    batch.extend(0, [1, 2])
    batch.forward([0])
    batch.set_logits(0, np.zeros(VOCAB, np.float32))
    batch.keep_snapshots([0])
    assert not batch.forward([0]).any()
    batch.append(0, 3)
    batch.forward([0])
    batch.truncate(0, 2)
    assert np.array_equal(batch.forward([0])[0], backend.logits_after([1, 2]))


def test_copies_of_rows_keep_their_snapshot() -> None:
    backend, batch = recurrent()
    batch.extend(0, range(9))
    batch.extend(1, [5])
    batch.keep_snapshots([0])
    batch.append(0, 3)
    batch.forward([0, 1])
    batch.reorder([0, 0])
    batch.append(1, 4)
    batch.forward([0, 1])
    before = backend.num_tokens
    for row in range(2):
        batch.truncate(row, 9)
        assert np.array_equal(batch.forward([row])[0], backend.logits_after(range(9)))
    assert backend.num_tokens == before


@pytest.fixture(
    scope="module", params=["fake-recurrent", "dense-recurrent", "fake-paged", "packed", "native"]
)
def case(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = make_case(request.param, Path(tmp_path_factory.mktemp("model")), 7)
    yield made
    made.backend.close()


ACTIONS = st.one_of(
    st.tuples(st.just("extend"), st.lists(st.integers(0, 60), min_size=1, max_size=6)),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.just("keep"), st.none()),
    st.tuples(st.just("copy"), st.none()),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=st.lists(st.tuples(st.integers(0, 1), ACTIONS), min_size=1, max_size=12))
def test_any_way_back_and_on_equals_a_fresh_run(case: Case, actions: Any) -> None:
    batch = Batch(case.backend, num_rows=2, max_tokens=CONTEXT, chunk_tokens=5)
    tokens: list[list[int]] = [[1], [2]]
    for row in range(2):
        batch.extend(row, tokens[row])
    for row, (action, value) in actions:
        if action == "extend":
            value = value[: CONTEXT - len(tokens[row])]
            batch.extend(row, value)
            tokens[row] += value
        elif action == "rewind":
            length = max(1, round(value * len(tokens[row])))
            batch.truncate(row, length)
            del tokens[row][length:]
        elif action == "keep":
            batch.keep_snapshots([row])
        else:
            batch.reorder([row, row])
            tokens = [list(tokens[row]) for _ in range(2)]
        logits = batch.forward([row])
        case.check(logits, tokens[row], [len(tokens[row]) - 1], actions)
    batch.close()
