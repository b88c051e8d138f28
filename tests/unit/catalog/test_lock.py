import contextlib
import threading
import time

from onnxgen.catalog.lock import exclusive


def test_the_second_waits_for_the_first_and_says_so(tmp_path):
    path, events = tmp_path / "folder" / "lock", []

    @contextlib.contextmanager
    def waiting():
        events.append("waiting")
        yield
        events.append("waited")

    def second():
        with exclusive(path, while_waiting=waiting) as held:
            events.append(f"second {held}")

    with exclusive(path, while_waiting=contextlib.nullcontext) as held:
        assert held
        thread = threading.Thread(target=second)
        thread.start()
        while "waiting" not in events:
            time.sleep(0.01)
        events.append("first leaves")
    thread.join()
    assert events == ["waiting", "first leaves", "waited", "second True"]


def test_a_lock_can_be_taken_again(tmp_path):
    for _ in range(2):
        with exclusive(tmp_path / "lock", while_waiting=contextlib.nullcontext) as held:
            assert held
