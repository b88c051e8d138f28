import gc
import mmap
import sys
import time
import weakref

import pytest

from onnxgen.foundations.process_memory import give_back_memory, peak_resident_bytes, resident_bytes


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_grows_with_what_is_held_and_the_peak_stays():
    before, size = resident_bytes(), 64 << 20
    held = mmap.mmap(-1, size)  # which is given back at once, as memory of an allocator may not be
    held.write(b"x" * size)
    grown = resident_bytes()
    assert grown - before > size // 2
    held.close()
    assert peak_resident_bytes() > grown - (4 << 20)  # the kernel counts in batches for each thread
    deadline = time.monotonic() + 5
    while resident_bytes() >= grown and time.monotonic() < deadline:
        time.sleep(0.01)  # other threads' batches
    assert resident_bytes() < grown


def test_fields_are_read_in_bytes(tmp_path):
    status = tmp_path / "status"
    status.write_text("Name:\tx\nVmHWM:\t    300 kB\nVmRSS:\t    200 kB\n")
    assert (resident_bytes(status), peak_resident_bytes(status)) == (200 * 1024, 300 * 1024)


def test_what_the_system_does_not_tell_is_none(tmp_path):
    assert resident_bytes(tmp_path / "nothing") is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no getrusage")
def test_the_peak_is_known_without_proc(tmp_path):
    assert peak_resident_bytes(tmp_path / "nothing") > 1 << 20


def test_what_nobody_uses_is_let_go():
    class Circle:
        def __init__(self):
            self.itself = self

    gone = weakref.ref(Circle())
    give_back_memory()
    assert gone() is None


def test_what_was_there_is_not_looked_at_again_and_yet_let_go():
    class Ring:
        def __init__(self):
            self.own = self

    ring = Ring()
    watch = weakref.ref(ring)
    give_back_memory()
    del ring
    gc.collect()
    assert watch() is not None
    give_back_memory()
    assert watch() is None
