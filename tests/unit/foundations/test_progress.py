"""Progress that nobody watches."""

import pytest

from onnxgen.foundations.progress import SILENT, current_progress, shown_by


class _Other:
    start = SILENT.start


def test_silence_takes_every_call():
    with SILENT.start("work", total=None) as task:
        task.advance(3)
    with SILENT.start("work", total=5, unit="tensors") as task:
        task.advance(0)


def test_silence_hides_no_error():
    with pytest.raises(ZeroDivisionError), SILENT.start("work", total=1):
        _ = 1 / 0


def test_the_innermost_caller_shows_what_turns_up_below():
    one, two = _Other(), _Other()
    assert current_progress() is SILENT
    with shown_by(one):
        with pytest.raises(ZeroDivisionError), shown_by(two):
            assert current_progress() is two
            _ = 1 / 0
        assert current_progress() is one
    assert current_progress() is SILENT
