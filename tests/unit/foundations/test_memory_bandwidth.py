from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onnxgen.foundations import memory_bandwidth


@pytest.mark.parametrize("threads", [1, 3])
def test_the_best_read_of_all_threads_counts(monkeypatch, threads):
    seconds = iter([0.0, 4.0, 10.0, 12.0, 20.0, 28.0, 30.0, 35.0, 40.0, 43.0])
    monkeypatch.setattr(memory_bandwidth.time, "perf_counter", lambda: next(seconds))
    workers = []
    monkeypatch.setattr(
        memory_bandwidth, "ThreadPoolExecutor", lambda n: workers.append(n) or ThreadPoolExecutor(n)
    )
    assert memory_bandwidth.measure_read_bandwidth(threads, megabytes=1) == threads * (1 << 20) / 2.0
    assert workers == [threads]


def test_many_threads_read_smaller_arrays(monkeypatch):
    monkeypatch.setattr(memory_bandwidth, "_MOST_MEGABYTES", 8)
    sizes = []
    monkeypatch.setattr(np, "max", lambda array: sizes.append(array.nbytes >> 20))
    memory_bandwidth.measure_read_bandwidth(3, megabytes=4)
    assert set(sizes) == {2}
    memory_bandwidth.measure_read_bandwidth(20, megabytes=4)
    assert sizes[-1] == 1
