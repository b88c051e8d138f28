import io
import os

import pytest

from onnxgen.cli import prompt_text
from onnxgen.cli.prompt_text import combined_prompt
from onnxgen.errors import OptionError


def test_nothing_piped_leaves_the_prompt_as_it_is():
    for nothing in ("", "\n", "  \n"):
        assert combined_prompt("ask", io.StringIO(nothing)) == "ask"


def test_null_devices_are_not_waited_for():
    with open(os.devnull) as stream:  # noqa: PTH123
        assert combined_prompt("ask", stream) == "ask"


def test_a_file_is_put_after_the_prompt(tmp_path):
    (tmp_path / "é.txt").write_text("\ntext\n", "utf-8")
    with (tmp_path / "é.txt").open(encoding="utf-8") as stream:
        assert combined_prompt("ask", stream) == "ask\n\ntext"


def test_a_terminal_is_not_read():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def read(self, *arguments):
            raise AssertionError("the terminal was read")

    assert combined_prompt("ask", Terminal()) == "ask"


def test_a_pipe_that_stays_open_gets_a_notice(monkeypatch, capsys):
    monkeypatch.setattr(prompt_text, "_NOTICE_AFTER_S", 0.01)

    class Slow(io.StringIO):
        def read(self, *arguments):
            import time

            time.sleep(0.3)
            return "late"

    assert combined_prompt("-", Slow()) == "late"
    assert "add </dev/null" in capsys.readouterr().err


def test_bytes_that_are_no_text_are_named():
    stream = io.TextIOWrapper(io.BytesIO(b"\xff\xfe\xff"), encoding="utf-8")
    with pytest.raises(OptionError, match="standard input is not text"):
        combined_prompt("-", stream)
