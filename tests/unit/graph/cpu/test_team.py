import threading
import time

import numba
import numpy as np
import pytest

from onnxgen.graph.cpu import team
from onnxgen.graph.cpu.compiled.function import address
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.ep.threads import limited_threads


class Work:
    """Takes parts one by one, and lets others have some."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.done: list[int] = []
        self._lock = threading.Lock()

    def __call__(self, parts: int, claims: np.ndarray) -> None:
        while True:
            with self._lock:
                part = int(claims[0])
                claims[0] += 1
            if part >= parts:
                return
            time.sleep(0.02)
            self.threads.add(threading.get_ident())
            self.done.append(part)


@pytest.fixture
def three_threads(monkeypatch):
    helpers = team.ThreadPoolExecutor(2)
    monkeypatch.setattr(team, "num_threads", lambda: 3)
    monkeypatch.setattr(team, "_helpers", lambda: helpers)
    yield
    helpers.shutdown()


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(("most", "expected"), [(None, 3), (2, 2), (1, 1)])
def test_parts_are_shared_by_as_many_threads_as_the_session_allows(most, expected):
    work = Work()
    if most is None:
        team.share(work, parts=30, seconds=1)
    else:
        with limited_threads(most):
            team.share(work, parts=30, seconds=1)
    assert sorted(work.done) == list(range(30))
    assert threading.get_ident() in work.threads
    assert len(work.threads) == expected


@pytest.mark.usefixtures("three_threads")
def test_short_work_is_not_shared():
    work = Work()
    team.share(work, parts=3, seconds=1e-6)
    assert work.threads == {threading.get_ident()}


@numba.njit(nogil=True)
def count_up(counts, rounds, parts, claims):
    while True:
        part = claim(address(claims))
        if part >= parts:
            break
        for _ in range(rounds):
            counts[part] += 1


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("seconds", [0.0, 1.0])
@pytest.mark.parametrize("parts", [0, 1, 2, 50])
def test_compiled_loops_do_every_part_once(parts, seconds):
    counts = np.zeros(60, np.int64)
    team.share(count_up, counts, 1000, parts=parts, seconds=seconds)
    assert counts.tolist() == [1000] * parts + [0] * (60 - parts)


def test_many_callers_at_once():
    results = [np.zeros(40, np.int64) for _ in range(8)]
    threads = [
        threading.Thread(
            target=lambda counts: [
                team.share(count_up, counts, 100, parts=40, seconds=1.0) for _ in range(5)
            ],
            args=(counts,),
        )
        for counts in results
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((counts == 500).all() for counts in results)


def test_errors_of_helpers_and_of_the_caller_are_raised():
    def fail(parts, claims):
        raise ArithmeticError("no")

    for seconds in (0.0, 1.0):
        with pytest.raises(ArithmeticError):
            team.share(fail, parts=2, seconds=seconds)
