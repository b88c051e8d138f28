"""How an answer is written: reasoning, text and calls, in whatever order they come."""

import io
import json

import pytest

from onnxgen.cli.answers import Answer, statistics, write_answer
from onnxgen.facade.results import Chunk, Completion, Timings, Usage
from onnxgen.preprocess.tool_calls.messages import call_message
from onnxgen.preprocess.tool_calls.tools import ToolCall

CALL = ToolCall("call_1", "weather", '{"place": "Köln"}')
LINE = json.dumps(call_message(CALL), ensure_ascii=False) + "\n"


def written(*chunks, out=None):
    out = out or io.StringIO()
    write_answer(lambda: iter(chunks), out)
    return out.getvalue()


def text(text):
    return Chunk(text, (1,))


def thought(text):
    return Chunk("", (1,), reasoning=text)


def called(*calls):
    return Chunk("", (1,), tool_calls=calls)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([], ""),
        ([text("")], ""),
        ([text("a"), text("b")], "ab\n"),
        ([text("a\n")], "a\n"),
        ([text("a"), text("\n"), text("")], "a\n"),
        ([thought("h"), thought("m"), text("a")], "hm\n\na\n"),
        ([thought("hm\n"), text("a")], "hm\n\na\n"),
        ([thought("hm")], "hm\n"),
        ([thought("hm"), called(CALL)], f"hm\n\n{LINE}"),
        ([called(CALL)], LINE),
        ([called(CALL, CALL)], LINE * 2),
        ([text("a"), called(CALL)], f"a\n{LINE}"),
        ([text("a\n"), called(CALL)], f"a\n{LINE}"),
        ([called(CALL), text("a")], f"{LINE}a\n"),
        ([text("a"), called(CALL), text("b"), called(CALL)], f"a\n{LINE}b\n{LINE}"),
        ([thought("hm"), text("a"), called(CALL), text("b")], f"hm\n\na\n{LINE}b\n"),
        ([text("a"), thought("hm"), text("b")], "a\nhm\n\nb\n"),
        ([text("a"), thought("hm"), called(CALL)], f"a\nhm\n\n{LINE}"),
        ([called(CALL), thought("hm"), text("b")], f"{LINE}hm\n\nb\n"),
        ([Chunk("a", (1, 2), reasoning="hm", tool_calls=(CALL,))], f"hm\n\na\n{LINE}"),
    ],
)
def test_every_part_has_lines_of_its_own(chunks, expected):
    assert written(*chunks) == expected


def test_reasoning_is_paler_on_a_terminal_and_lines_end_as_elsewhere(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    seen = written(thought("hm"), thought("\n"), text("a"), out=terminal)
    assert seen == "\x1b[2mhm\x1b[0m\x1b[2m\n\x1b[0m\na\n"
    terminal.seek(0), terminal.truncate()
    assert written(thought("hm\n"), out=terminal) == "\x1b[2mhm\n\x1b[0m"


def test_what_came_is_counted_and_shown_at_once():
    out, seen = io.StringIO(), []

    def chunks():
        for piece in (text("a"), called(CALL), text("b")):
            yield piece
            seen.append(out.getvalue())

    answer = write_answer(chunks, out)
    assert answer == Answer(None, 3)
    assert seen == ["a", f"a\n{LINE}", f"a\n{LINE}b"]


def test_an_answer_that_fails_ends_its_line():
    out = io.StringIO()

    def chunks():
        yield text("a")
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        write_answer(chunks, out)
    assert out.getvalue() == "a\n"


@pytest.mark.parametrize(("guessed", "expected"), [(0, False), (7, True)])
def test_guesses_are_told_where_there_were_some(guessed, expected):
    usage = Usage(5, 9, 0, guessed, 4 if guessed else 0)
    line = statistics(Answer(Completion("", (), "tool_calls", usage, Timings(None, None, None, None)), 9))
    assert ("guessed 7 tokens, 4 of them right" in line) == expected
    assert "finish: tool_calls" in line
