import threading
import time

import numpy as np
import pytest

from onnxgen.graph.cpu import team
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
