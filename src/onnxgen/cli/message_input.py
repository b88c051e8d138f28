"""Messages of a conversation as a person enters them: line by line, or in blocks between triple quotes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import Output

QUOTES = '"""'


class MessageInput(Protocol):
    """Where messages come from."""

    def read(self) -> str:
        """The next message, without the quotes of a block.

        Raises:
            EOFError: There are no more.
            KeyboardInterrupt: Ctrl-C instead of a message.
        """
        ...


def is_open(text: str) -> bool:
    """Whether the text begins a block that does not end yet."""
    text = text.strip()
    return text.startswith(QUOTES) and not (len(text) >= 2 * len(QUOTES) and text.endswith(QUOTES))


def unquoted(text: str) -> str:
    """The message that was entered: the inside of a block, or the text itself."""
    stripped = text.strip()
    if not stripped.startswith(QUOTES):
        return stripped
    return stripped.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


class PlainInput:
    """Lines of a stream that is not a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def read(self) -> str:
        """See `MessageInput.read`. A block that the end of the stream cuts off is a message too."""
        text = self._stream.readline()
        if not text:
            raise EOFError
        while is_open(text):
            line = self._stream.readline()
            if not line:
                break
            text += line
        return unquoted(text)


class TerminalInput:
    """A line editor with history. Enter sends, Alt-Enter breaks the line, pasted line breaks are kept."""

    def __init__(
        self,
        history_path: Path,
        *,
        terminal_input: Input | None = None,
        terminal_output: Output | None = None,
    ) -> None:
        from prompt_toolkit import PromptSession

        self._session: PromptSession[str] = PromptSession(
            ">>> ",
            multiline=True,
            prompt_continuation="... ",
            history=_history(history_path),
            key_bindings=_key_bindings(),
            enable_history_search=True,
            input=terminal_input,
            output=terminal_output,
        )

    def read(self) -> str:
        """See `MessageInput.read`."""
        return unquoted(self._session.prompt())


def _history(path: Path) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # what people ask is nobody else's business
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
        return FileHistory(str(path))
    return InMemoryHistory()


def _key_bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()
    add: Callable[..., Callable[[Callable[[KeyPressEvent], None]], object]] = bindings.add

    def send_or_continue(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_open(buffer.text):
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    def break_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    add("enter")(send_or_continue)
    add("escape", "enter")(break_line)
    return bindings
