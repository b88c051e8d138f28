"""`AnswerBlocks`: the pieces of an answer as blocks that follow each other: reasoning, text, calls of tools.

Both APIs say an answer as a list of blocks, and a stream of it as blocks that open, grow and close::

    pieces    reasoning  reasoning  text  text  call
    blocks   └──── reasoning ─────┘└── text ──┘└call┘
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from onnxgen.facade.results import Chunk, TokenLogprob
from onnxgen.preprocess.tool_calls.tools import ToolCall

Kind = Literal["reasoning", "text", "call"]


class Block:
    """One block while it grows.

    Attributes:
        index: Its place in the answer.
        kind: What it is.
        call: The call of a tool that it is; None: it is none.
        logprobs: Of the tokens of a text, if they were asked for.
    """

    __slots__ = ("_parts", "call", "index", "kind", "logprobs")

    def __init__(self, index: int, kind: Kind, call: ToolCall | None = None) -> None:
        self.index, self.kind, self.call = index, kind, call
        self.logprobs: list[TokenLogprob] = []
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """What is reasoned or said, or the arguments of the call."""
        return "".join(self._parts)

    def grow(self, text: str, logprobs: list[TokenLogprob]) -> None:
        """More of it came."""
        self._parts.append(text)
        self.logprobs += logprobs


class Step(NamedTuple):
    """What happened to a block.

    Attributes:
        what: It opened, grew by ``text``, or closed.
        block: Which one.
        text: What it grew by.
        logprobs: Of the tokens of ``text``.
    """

    what: Literal["open", "grow", "close"]
    block: Block
    text: str = ""
    logprobs: list[TokenLogprob] = []  # noqa: RUF012 - read only


class AnswerBlocks:
    """Puts the pieces of one answer into blocks.

    Blanks in front of a text wait for its first letter, and go with what follows if that is a call or the
    end of an answer that has other blocks: models write line breaks there, and nobody wants a block of them.

    Args:
        show_reasoning: Reasoning makes blocks; otherwise it is left out.
    """

    def __init__(self, *, show_reasoning: bool = True) -> None:
        self.blocks: list[Block] = []
        self._show_reasoning = show_reasoning
        self._open: Block | None = None
        self._blanks = ""
        self._logprobs: list[TokenLogprob] = []

    def push(self, chunk: Chunk) -> Iterator[Step]:
        """What a piece does to the blocks."""
        self._logprobs += chunk.logprobs
        if chunk.reasoning and self._show_reasoning:
            yield from self._grow("reasoning", chunk.reasoning)
        if chunk.reasoning and not chunk.text:
            self._logprobs = []  # of what was thought
        if chunk.text:
            yield from self._say(chunk.text)
        for call in chunk.tool_calls:
            yield from self._call(call)

    def finish(self) -> Iterator[Step]:
        """The answer ended: one that said nothing is an empty text."""
        if not self.blocks:
            yield from self._grow("text", self._blanks)
        yield from self._close()

    def close(self) -> Iterator[Step]:
        """The answer was cut: nothing more comes."""
        yield from self._close()

    def _say(self, text: str) -> Iterator[Step]:
        if self._open is None or self._open.kind != "text":
            text = self._blanks + text
            if text.isspace():
                self._blanks = text
                return
            self._blanks = ""
        yield from self._grow("text", text)

    def _call(self, call: ToolCall) -> Iterator[Step]:
        self._blanks, self._logprobs = "", []
        yield from self._begin("call", call)
        yield from self._grow("call", call.arguments)
        yield from self._close()

    def _grow(self, kind: Kind, text: str) -> Iterator[Step]:
        if self._open is None or self._open.kind != kind:
            yield from self._begin(kind)
            if kind == "text":
                self._logprobs = _of_text(self._logprobs, text)
        block = self._open
        assert block is not None
        logprobs: list[TokenLogprob] = []
        if kind == "text":
            logprobs, self._logprobs = self._logprobs, []
        block.grow(text, logprobs)
        if text:
            yield Step("grow", block, text, logprobs)

    def _begin(self, kind: Kind, call: ToolCall | None = None) -> Iterator[Step]:
        yield from self._close()
        self._open = Block(len(self.blocks), kind, call)
        self.blocks.append(self._open)
        yield Step("open", self._open)

    def _close(self) -> Iterator[Step]:
        block, self._open = self._open, None
        if block is not None:
            yield Step("close", block)


def _of_text(logprobs: list[TokenLogprob], text: str) -> list[TokenLogprob]:
    """Those of the tokens that make a text, without those of marks in front of it."""
    start = b"".join(token.token_bytes for token in logprobs).rfind(text.encode())
    kept = 0
    while start > 0 and kept < len(logprobs):
        start -= len(logprobs[kept].token_bytes)
        kept += start >= 0
    return logprobs[kept:]
