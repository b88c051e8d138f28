"""The tree of errors: one base, fitting builtins, and the picture in the docstring is true."""

import inspect
import re

import pytest

from onnxgen import errors
from onnxgen.errors import OnnxgenError

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, Exception) and cls.__module__ == errors.__name__
]


def test_there_are_classes_to_look_at():
    assert len(CLASSES) > 10


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_the_common_base_and_a_docstring(cls):
    assert issubclass(cls, OnnxgenError)
    assert cls.__doc__


@pytest.mark.parametrize("cls", [c for c in CLASSES if c is not OnnxgenError], ids=lambda cls: cls.__name__)
def test_callers_who_know_only_builtins_can_catch_every_error(cls):
    builtins = [base for base in cls.__mro__ if base.__module__ == "builtins"]
    assert len([base for base in builtins if base not in (Exception, BaseException, object)]) >= 1


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_a_message_survives(cls):
    assert str(cls("asked for 2 blocks, 1 of 4 are free")) == "asked for 2 blocks, 1 of 4 are free"


def test_the_picture_shows_every_class_under_its_parent():
    lines = [line for line in errors.__doc__.splitlines() if re.search(r"\w+Error\b", line)]
    stack = []
    drawn = {}
    for line in lines:
        match = re.search(r"[A-Z]\w*Error", line)
        if match is None or line.startswith("Every"):
            continue
        depth = match.start()
        stack = [(d, name) for d, name in stack if d < depth]
        drawn[match.group()] = stack[-1][1] if stack else None
        stack.append((depth, match.group()))
    parents = {
        cls.__name__: next((base.__name__ for base in cls.__bases__ if base in CLASSES), None)
        for cls in CLASSES
    }
    assert drawn == parents
