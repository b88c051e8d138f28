import threading

import pytest
from threadpoolctl import threadpool_info

from onnxgen.foundations.blas_threads import BlasThreads, blas_threads


class Library:
    def __init__(self, num_threads: int) -> None:
        self.num_threads: int | None = num_threads

    def set_num_threads(self, num_threads: int) -> None:
        self.num_threads = num_threads


def test_the_least_limit_counts_until_it_is_released():
    large, small = Library(8), Library(2)
    threads = BlasThreads([large, small])
    threads.hold(3)
    assert (large.num_threads, small.num_threads) == (3, 2)
    threads.hold(1)
    assert (large.num_threads, small.num_threads) == (1, 1)
    threads.hold(5)
    threads.release(1)
    assert (large.num_threads, small.num_threads) == (3, 2)
    threads.release(3)
    assert (large.num_threads, small.num_threads) == (5, 2)
    threads.release(5)
    assert (large.num_threads, small.num_threads) == (8, 2)


def test_what_was_set_between_two_limits_is_what_comes_back():
    library = Library(8)
    threads = BlasThreads([library])
    threads.hold(1)
    threads.release(1)
    library.set_num_threads(4)
    threads.hold(2)
    threads.release(2)
    assert library.num_threads == 4


def test_threads_that_hold_and_release_leave_nothing_behind():
    library = Library(8)
    threads = BlasThreads([library])

    def work(most: int) -> None:
        for _ in range(200):
            threads.hold(most)
            assert library.num_threads is not None
            assert library.num_threads <= most
            threads.release(most)

    workers = [threading.Thread(target=work, args=(most,)) for most in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert library.num_threads == 8


def test_numpys_own_library_is_found():
    usual = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    if not usual:
        pytest.skip("this NumPy multiplies with a library that threadpoolctl does not know")
    blas_threads().hold(1)
    try:
        assert {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"} == {1}
    finally:
        blas_threads().release(1)
    assert [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"] == usual
