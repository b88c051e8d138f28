"""Progress that nobody watches."""

import pytest

from onnxgen.foundations.progress import SILENT


def test_silence_takes_every_call():
    with SILENT.start("work", total=None) as task:
        task.advance(3)
    with SILENT.start("work", total=5, unit="tensors") as task:
        task.advance(0)


def test_silence_hides_no_error():
    with pytest.raises(ZeroDivisionError), SILENT.start("work", total=1):
        _ = 1 / 0
