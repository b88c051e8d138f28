import io
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.cli.message_input import PlainInput, TerminalInput, is_open, unquoted

prompt_toolkit_input = pytest.importorskip("prompt_toolkit.input")
prompt_toolkit_output = pytest.importorskip("prompt_toolkit.output")


@pytest.mark.parametrize(
    ("text", "open_", "message"),
    [
        ("hello", False, "hello"),
        ("  hello \n", False, "hello"),
        ('"""', True, ""),
        ('"""one', True, "one"),
        ('"""one\ntwo"""', False, "one\ntwo"),
        ('"""\none\n\ntwo\n"""', False, "one\n\ntwo"),
        ('say """', False, 'say """'),
        ('""""""', False, ""),
        ('""""', True, '"'),
    ],
)
def test_blocks(text, open_, message):
    assert is_open(text) == open_
    assert unquoted(text) == message


@given(st.text(st.characters(exclude_characters='"\r', exclude_categories=["Cs"])))
def test_any_text_survives_a_block(text):
    stream = io.StringIO(f'"""\n{text}\n"""\n', newline="\n")
    assert PlainInput(stream).read() == text.strip("\n")


def test_lines_end_with_the_stream():
    messages = PlainInput(io.StringIO("one\ntwo"))
    assert [messages.read(), messages.read()] == ["one", "two"]
    with pytest.raises(EOFError):
        messages.read()


@pytest.fixture
def terminal(tmp_path):
    with prompt_toolkit_input.create_pipe_input() as pipe:
        history = tmp_path / "folder" / "history"
        messages = TerminalInput(
            history, terminal_input=pipe, terminal_output=prompt_toolkit_output.DummyOutput()
        )
        messages.pipe, messages.history = pipe, history
        yield messages


ENTER, ALT_ENTER, CTRL_C, CTRL_D, UP = "\r", "\x1b\r", "\x03", "\x04", "\x1b[A"


def test_enter_sends_and_history_is_kept_private(terminal):
    terminal.pipe.send_text("hello" + ENTER)
    assert terminal.read() == "hello"
    terminal.pipe.send_text(UP + "!" + ENTER)
    assert terminal.read() == "hello!"
    assert "+hello!" in terminal.history.read_text()
    assert stat.S_IMODE(terminal.history.stat().st_mode) == 0o600


def test_a_block_goes_over_several_lines(terminal):
    terminal.pipe.send_text('"""one' + ENTER + "two" + ENTER + '"""' + ENTER)
    assert terminal.read() == "one\ntwo"


def test_alt_enter_breaks_a_line(terminal):
    terminal.pipe.send_text("one" + ALT_ENTER + "two" + ENTER)
    assert terminal.read() == "one\ntwo"


def test_pasted_line_breaks_are_kept(terminal):
    pasted = "\n".join(f"line {i}" for i in range(2000))
    terminal.pipe.send_text(f"\x1b[200~{pasted}\x1b[201~" + ENTER)
    assert terminal.read() == pasted


def test_ctrl_c_and_ctrl_d(terminal):
    terminal.pipe.send_text("half" + CTRL_C)
    with pytest.raises(KeyboardInterrupt):
        terminal.read()
    terminal.pipe.send_text(CTRL_D)
    with pytest.raises(EOFError):
        terminal.read()


def test_a_history_that_cannot_be_written_is_no_hindrance(tmp_path):
    (tmp_path / "file").write_text("")
    with prompt_toolkit_input.create_pipe_input() as pipe:
        messages = TerminalInput(
            tmp_path / "file" / "history",
            terminal_input=pipe,
            terminal_output=prompt_toolkit_output.DummyOutput(),
        )
        pipe.send_text("hello" + ENTER)
        assert messages.read() == "hello"
