"""`read_speculation`: how tokens are guessed ahead, in the forms callers know."""

import pytest

from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import OptionError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.option_forms import read_speculation


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("prompt_lookup", Speculation("prompt_lookup")),
        ({}, Speculation()),
        ({"method": "off"}, Speculation("off")),
        ({"max_draft_tokens": 3, "adaptive": False}, Speculation(max_draft_tokens=3, adaptive=False)),
        (Speculation("heads"), Speculation("heads")),
    ],
)
def test_forms_that_callers_know(given, expected):
    assert read_speculation(given) == expected
    assert GenerationOptions(speculation=given).speculation == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "Speculation options or the name of a method, got 3"),
        (True, "got True"),
        (b"auto", "got b'auto'"),
        (["auto"], "name of a method"),
        ("", "speculation.method must be one of off, auto"),
        ("promptlookup", "did you mean 'prompt_lookup'"),
        ({"method": 3}, "speculation.method must be one of"),
        ({"method": None}, "speculation.method must be one of"),
        ({"max_draft_token": 3}, "'max_draft_token' of speculation; did you mean 'max_draft_tokens'"),
        ({5: 3}, "unknown option 5 of speculation"),
        ({"max_draft_tokens": 0}, "max_draft_tokens"),
        ({"max_draft_tokens": True}, "max_draft_tokens"),
        ({"min_match": "2"}, "min_match"),
        ({"adaptive": 1}, "speculation.adaptive must be True or False, got 1"),
    ],
)
def test_other_forms_are_refused_by_name(given, message):
    with pytest.raises(OptionError, match=message):
        read_speculation(given)
    with pytest.raises(OptionError):
        GenerationOptions(speculation=given)
