"""Calls of kernels by operators."""

from __future__ import annotations

import itertools
import os
import threading

import numpy as np
import pytest

from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import CallList, NodeCalls, workspace

RANGES = step_kernel("byte_operands:value_range", ("x", "size", "ranges", "num_ranges"))
PARTS, SIZE = 7, 50_000


def _ranges(calls, x, *, seconds):
    found = np.empty((PARTS, 2), np.float32)
    calls.run(((x.ctypes.data, SIZE, found.ctypes.data, PARTS),), (PARTS,), seconds=seconds)
    return found


def _wanted(x):
    edges = [SIZE * part // PARTS for part in range(PARTS + 1)]
    pieces = [x[first:last] for first, last in itertools.pairwise(edges)]
    return np.array([(piece.min(), piece.max()) for piece in pieces])


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_several_threads_may_call_at_once(seconds):
    calls, wrong = NodeCalls(RANGES), []

    def work(seed):
        for turn in range(20):
            x = np.random.default_rng([seed, turn]).standard_normal(SIZE).astype(np.float32)
            if not np.array_equal(_ranges(calls, x, seconds=seconds), _wanted(x)):
                wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_a_list_has_as_many_calls_as_each_run_wants(seconds):
    calls = CallList(RANGES)
    for count in (1, 5, 2):
        arrays = [np.arange(first, first + SIZE, dtype=np.float32) for first in range(count)]
        found = np.empty((count, PARTS, 2), np.float32)
        words = calls.rows([0] * count)
        for row, x, ranges in zip(words, arrays, found, strict=True):
            row[1:5] = x.ctypes.data, SIZE, ranges.ctypes.data, PARTS
        calls.run(words, [0] * count, [PARTS] * count, header=np.zeros(32, np.int64), seconds=seconds)
        for x, ranges in zip(arrays, found, strict=True):
            np.testing.assert_array_equal(ranges, _wanted(x))


def test_places_of_a_workspace_do_not_overlap():
    sizes = (1, 64, 65, 0, 1 << 20)
    places = workspace().addresses(*sizes)
    assert all(place % 64 == 0 for place in places)
    assert all(place + size <= after for place, size, after in zip(places, sizes, places[1:], strict=False))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_thread_it_does_not_have():
    calls, x = NodeCalls(RANGES), np.arange(SIZE, dtype=np.float32)
    _ranges(calls, x, seconds=1.0)
    with calls._turn:
        child = os.fork()
        if child == 0:
            right = np.array_equal(_ranges(calls, x, seconds=1.0), _wanted(x))
            os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
