import gc
import os
import subprocess
import sys
import threading

import pytest

from onnxgen.foundations.after_fork import in_forked_children

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


class Held:
    def __init__(self):
        self.lock = threading.Lock()


def _status_of_child(check):
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_lock_that_another_thread_held_is_free_in_the_child():
    held = Held()
    in_forked_children(held, Held.__init__)
    held.lock.acquire()
    assert _status_of_child(lambda: held.lock.acquire(blocking=False)) == 0
    assert not held.lock.acquire(blocking=False)  # here it is still held


def test_owners_are_not_kept_alive():
    held, done = Held(), []
    in_forked_children(held, done.append)
    del held
    gc.collect()
    assert _status_of_child(lambda: not done) == 0


def test_what_is_left_to_the_parent_is_never_collected():
    program = """
import gc
from onnxgen.foundations.after_fork import leave_to_parent

def suspended(name):
    try:
        yield
    finally:
        print(name, flush=True)

left, own = suspended("left"), suspended("own")
next(left), next(own)
leave_to_parent(left)
del left, own
gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["own"]
