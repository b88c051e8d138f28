import threading

import pytest

from onnxgen.errors import StateError
from onnxgen.facade.guard import SingleUse


def test_one_thread_may_enter_again_and_another_may_not():
    guard = SingleUse("thing")
    errors = []

    def enter():
        try:
            with guard:
                pass
        except StateError as error:
            errors.append(str(error))

    with guard, guard:
        other = threading.Thread(target=enter)
        other.start()
        other.join()
    assert len(errors) == 1
    assert "this thing is in use by another thread" in errors[0]
    enter()
    assert len(errors) == 1


def test_an_error_leaves_the_guard():
    guard = SingleUse("thing")
    with pytest.raises(ValueError, match="x"), guard:
        raise ValueError("x")
    thread = threading.Thread(target=guard.__enter__)
    thread.start()
    thread.join()
    with pytest.raises(StateError):
        guard.__enter__()
