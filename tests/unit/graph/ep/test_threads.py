import threading

import pytest

from onnxgen.graph.ep.threads import limited_threads, most_threads


def test_limits_hold_inside_and_in_this_thread_alone():
    assert most_threads(8) == 8
    seen = []
    with limited_threads(2):
        assert most_threads(8) == 2
        assert most_threads(1) == 1
        with limited_threads(1):
            assert most_threads(8) == 1
        assert most_threads(8) == 2
        other = threading.Thread(target=lambda: seen.append(most_threads(8)))
        other.start()
        other.join()
    assert seen == [8]
    assert most_threads(8) == 8


def test_limits_end_with_an_error():
    with pytest.raises(KeyError), limited_threads(1):
        raise KeyError
    assert most_threads(8) == 8
