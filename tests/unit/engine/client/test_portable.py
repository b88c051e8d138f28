"""Errors arrive in another process as what they are, or say what they were."""

import inspect
import pickle
import threading

import pytest

from onnxgen import errors
from onnxgen.engine.client.portable import portable
from onnxgen.errors import BackendError, OnnxgenError

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, OnnxgenError) and cls.__module__ == errors.__name__
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_of_ours_arrives_with_class_message_and_notes(cls):
    error = cls("asked for 2 blocks, 1 of 4 are free")
    error.add_note("seen in step 7")
    assert portable(error) is error
    arrived = pickle.loads(pickle.dumps(error))
    assert type(arrived) is cls
    assert str(arrived) == str(error)
    assert arrived.__notes__ == ["seen in step 7"]


def test_other_errors_say_what_they_were():
    cause = ZeroDivisionError("by zero")
    told = portable(cause)
    assert type(told) is BackendError
    assert str(told) == "ZeroDivisionError: by zero"
    assert told.__cause__ is cause


def test_an_error_that_cannot_be_sent_says_what_it_was():
    error = BackendError("no memory")
    error.lock = threading.Lock()
    told = portable(error)
    assert told is not error
    assert str(told) == "BackendError: no memory"
    assert pickle.loads(pickle.dumps(told)).args == told.args


def test_a_class_that_the_other_process_may_not_have_is_told_as_one_that_it_has():
    class MineError(OnnxgenError):
        pass

    told = portable(MineError("something"))
    assert type(told) is BackendError
    assert str(told) == "MineError: something"
