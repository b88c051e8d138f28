"""`HarmonyParser`: reasoning, content and tool calls of a harmony answer, apart while the text comes.

An answer is a row of messages::

    <|channel|>analysis<|message|>...<|end|>                                      reasoning
    <|start|>assistant<|channel|>commentary<|message|>...<|end|>                  content, said before calls
    <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>
    <|start|>assistant<|channel|>final<|message|>...<|return|>                    content

Format: https://cookbook.openai.com/articles/openai-harmony
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import Enum, auto

from onnxgen.preprocess.answer_pieces import AnswerPieces
from onnxgen.preprocess.harmony_header import MAX_HEADER_CHARS, Header, may_begin_header, read_header
from onnxgen.preprocess.harmony_markers import Control, ControlLexer, HarmonyMarkers, open_header
from onnxgen.preprocess.tool_calls.call_ids import random_id
from onnxgen.preprocess.tool_calls.tools import ToolCall, ToolDefinition

_FUNCTIONS = "functions."
_END = frozenset((Control.END, Control.CALL, Control.RETURN))


class _Place(Enum):
    HEADER = auto()
    REASONING = auto()
    CONTENT = auto()
    CALL = auto()


class HarmonyParser:
    """Reads a harmony answer, whatever the pieces it arrives in.

    Models get headers wrong, and no such answer is lost: a recipient counts wherever it stands in a header, of
    several channels the last one counts, the messages of an unknown channel are content, and so is text outside
    of messages. A message ends where another begins. What is addressed to no tool, and a call that was cut or
    whose arguments are no JSON object, comes out as a text of its channel.

    Several messages of one kind have an empty line between them.

    Args:
        markers: The control tokens.
        tools: The tools that the model may call; without any, what it writes to one is text.
        prompt: The prompt (`ChatPrompt.shadowed`), at whose end a message may have begun.
        new_id: Gives the ids of calls; random ones if None.
    """

    def __init__(
        self,
        markers: HarmonyMarkers,
        tools: Sequence[ToolDefinition] = (),
        *,
        prompt: str = Control.START.value + "assistant",
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._lexer = ControlLexer(markers)
        self._names = frozenset(tool.name for tool in tools)
        self._new_id = new_id or random_id
        self._place = _Place.HEADER
        self._header = ""
        self._from_prompt = ""  # the beginning of the header, which is not part of the answer
        self._begun = False  # by a control token; else the header may turn out to be text
        self._name = ""  # whom a call calls
        self._arguments: list[str] = []
        self._text_place = _Place.CONTENT  # where the text of a call goes that turns out to be none
        self._reasoning, self._content = _Joined(), _Joined()
        self._calls: list[ToolCall] = []
        self._begin_as_prompt(open_header(prompt))

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes now is reasoning."""
        return self._place is _Place.REASONING

    @property
    def opened(self) -> bool:
        """Whether what comes now is the arguments of a call."""
        return self._place is _Place.CALL

    def push(self, text: str, token_id: int | None = None) -> AnswerPieces:
        """Take the next piece of text.

        Args:
            text: What a token added to the text.
            token_id: The token. A control token that is one token is found by it alone.
        """
        for piece in self._lexer.push(text, token_id):
            self._take(piece)
        return self._given()

    def flush(self, *, complete: bool) -> AnswerPieces:
        """What is held back, at the end of the answer.

        Args:
            complete: The model ended its turn by itself, so that a call is whole.
        """
        for piece in self._lexer.flush():
            self._take(piece)
        self._end_message(whole=complete)
        return self._given()

    def _begin_as_prompt(self, header: str) -> None:
        self._begin_header(begun=True)
        lexer = ControlLexer(HarmonyMarkers())
        for piece in (*lexer.push(header), *lexer.flush()):
            self._take(piece)
        self._given()
        self._reasoning, self._content = _Joined(), _Joined()
        if self._place is _Place.HEADER:
            self._from_prompt, self._header = self._header, ""
            self._begun = Control.CHANNEL.value in self._from_prompt

    def _given(self) -> AnswerPieces:
        calls, self._calls = tuple(self._calls), []
        return AnswerPieces(self._reasoning.given(), self._content.given(), calls)

    def _take(self, piece: Control | str) -> None:
        if isinstance(piece, str):
            self._take_text(piece)
        elif piece is Control.START or piece in _END:
            self._end_message(whole=True)
            self._begin_header(begun=piece is Control.START)
        elif self._place is _Place.HEADER:
            if piece is Control.MESSAGE:
                self._begin_message()
            else:
                self._header += piece.value
                self._begun = True
        elif piece is Control.CHANNEL:
            self._end_message(whole=True)
            self._begin_header(begun=True, text=piece.value)

    def _take_text(self, text: str) -> None:
        if self._place is _Place.HEADER:
            self._header += text
            if self._is_no_header():
                self._begin_message(has_header=False)
        elif self._place is _Place.CALL:
            self._arguments.append(text)
        else:
            self._show(text, self._place)

    def _show(self, text: str, place: _Place) -> None:
        (self._reasoning if place is _Place.REASONING else self._content).add(text)

    def _begin_header(self, *, begun: bool, text: str = "") -> None:
        self._place = _Place.HEADER
        self._from_prompt = ""
        self._header = text
        self._begun = begun

    def _is_no_header(self) -> bool:
        if len(self._header) > MAX_HEADER_CHARS:
            return True
        return not self._begun and not may_begin_header(self._header, after_role=bool(self._from_prompt))

    def _begin_message(self, *, has_header: bool = True) -> None:
        header = (
            read_header(self._from_prompt + self._header) if self._begun or has_header else Header("", None)
        )
        self._text_place = _Place.REASONING if header.channel == "analysis" else _Place.CONTENT
        self._place = self._text_place
        name = self._called(header.recipient)
        if not has_header:
            self._show(self._header if header.rest is None else header.rest, self._place)
        elif name is not None:
            self._place, self._name, self._arguments = _Place.CALL, name, []

    def _called(self, recipient: str | None) -> str | None:
        """Name of the tool that a message is for."""
        if recipient is None or not self._names:
            return None
        if recipient.startswith(_FUNCTIONS):
            return recipient.removeprefix(_FUNCTIONS)
        return recipient if recipient in self._names else None

    def _end_message(self, *, whole: bool) -> None:
        if self._place is _Place.HEADER:
            # What may be the beginning of a header is nothing to show, unless nothing says that it is one.
            if self._header.strip() and (Control.CHANNEL.value in self._header or not self._begun):
                self._begin_message(has_header=False)
        elif self._place is _Place.CALL:
            self._end_call(whole=whole)
        self._reasoning.end()
        self._content.end()

    def _end_call(self, *, whole: bool) -> None:
        text, self._arguments = "".join(self._arguments), []
        arguments = _object_text(text) if whole else None
        if arguments is None:
            self._show(text, self._text_place)
        else:
            self._calls.append(ToolCall(self._new_id(), self._name, arguments))


def _object_text(text: str) -> str | None:
    """The text of a JSON object as it is; an empty text is an empty object; None: it is neither."""
    text = text.strip() or "{}"
    try:
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, RecursionError):
        return None


class _Joined:
    """The texts of several messages, with an empty line between them."""

    def __init__(self) -> None:
        self._new: list[str] = []
        self._is_first = True
        self._ended = False

    def add(self, text: str) -> None:
        if not text:
            return
        if self._ended and not self._is_first:
            self._new.append("\n\n")
        self._ended = self._is_first = False
        self._new.append(text)

    def end(self) -> None:
        """The message is over."""
        self._ended = True

    def given(self) -> str:
        if not self._new:
            return ""
        text = "".join(self._new)
        self._new.clear()
        return text
