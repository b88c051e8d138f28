import io

import pytest

from onnxgen.cli.terminal import columns, is_terminal, paint


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_columns_are_as_wide_as_their_longest_cell():
    assert columns([("A", "B"), ("long", "x"), ("", "")], indent="  ") == "  A     B\n  long  x\n"
    assert columns([]) == ""


@pytest.mark.parametrize(
    ("stream", "environment", "painted"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(monkeypatch, stream, environment, painted):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (paint("x", "red", stream) != "x") == painted


def test_a_dumb_terminal_has_no_moving_cursor(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    assert not is_terminal(Terminal())
