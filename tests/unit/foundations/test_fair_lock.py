"""`FairLock`: threads take turns in the order in which they came."""

import gc
import threading
import time

import pytest

from onnxgen.foundations.fair_lock import FairLock


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_one_that_comes_back_at_once_does_not_overtake_those_that_wait():
    lock, order = FairLock(), []

    def wait(name):
        with lock.held():
            order.append(name)

    with lock.held():
        waiting = []
        for name in "abc":
            waiting.append(threading.Thread(target=wait, args=(name,)))
            waiting[-1].start()
            wait_until(lambda: len(lock._queue) == 1 + len(waiting))
    with lock.held():
        order.append("again")
    for thread in waiting:
        thread.join()
    assert order == ["a", "b", "c", "again"]


def test_one_thread_at_a_time():
    lock, inside, seen = FairLock(), [], []

    def work():
        for _ in range(200):
            with lock.held():
                inside.append(1)
                seen.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 1200
    assert not lock._queue


def test_what_raises_inside_leaves_the_lock_free():
    lock = FairLock()
    with pytest.raises(KeyError), lock.held():
        raise KeyError
    with lock.held_if_free() as is_held:
        assert is_held


def test_a_lock_that_is_held_is_not_waited_for_by_those_that_ask_only():
    lock = FairLock()
    with lock.held():
        with lock.held_if_free() as is_held:
            assert not is_held
        with lock.held_if_free() as is_held:
            assert not is_held
    with lock.held_if_free() as is_held:
        assert is_held


def test_one_that_gives_up_waiting_does_not_hold_up_those_behind_it():
    """As an interrupt does: the generator that waits ends."""
    lock, order = FairLock(), []

    class ImpatientError(Exception):
        pass

    class Queue:
        def get(self):
            raise ImpatientError

        def put(self, _):
            order.append("woken in vain")

    def wait():
        with lock.held():
            order.append("behind")

    with lock.held():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("onnxgen.foundations.fair_lock.SimpleQueue", Queue)
            with pytest.raises(ImpatientError), lock.held():
                pass
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: len(lock._queue) == 2)
    thread.join(30)
    assert order == ["behind"]


def test_a_finalizer_may_ask_in_the_thread_that_holds_it():
    lock, asked = FairLock(), []

    class Dropped:
        def __del__(self):
            with lock.held_if_free() as is_held:
                asked.append(is_held)

    with lock.held():
        cycle = Dropped()
        cycle.self = cycle
        del cycle
        gc.collect()
    assert asked == [False]
