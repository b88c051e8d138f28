"""`AnswerBlocks`: the pieces of an answer as blocks that follow each other: reasoning, text, calls of tools.

Both APIs say an answer as a list of blocks, and a stream of it as blocks that open, grow and close::

    pieces    reasoning  reasoning  text  text  call
    blocks   └──── reasoning ─────┘└── text ──┘└call┘
"""

from __future__ import annotations

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

    def push(self, chunk: Chunk) -> list[Step]:
        """What a piece does to the blocks."""
        steps: list[Step] = []
        if chunk.logprobs:
            self._logprobs += chunk.logprobs
        if chunk.reasoning and self._show_reasoning:
            self._grow("reasoning", chunk.reasoning, steps)
        if chunk.reasoning and not chunk.text:
            self._logprobs = []  # of what was thought
        if chunk.text:
            self._say(chunk.text, steps)
        for call in chunk.tool_calls:
            self._call(call, steps)
        return steps

    def finish(self) -> list[Step]:
        """The answer ended: one that said nothing is an empty text."""
        steps: list[Step] = []
        if not self.blocks:
            self._grow("text", self._blanks, steps)
        self._close(steps)
        return steps

    def close(self) -> list[Step]:
        """The answer was cut: nothing more comes."""
        steps: list[Step] = []
        self._close(steps)
        return steps

    def _say(self, text: str, steps: list[Step]) -> None:
        if self._open is None or self._open.kind != "text":
            text = self._blanks + text
            self._blanks = text if text.isspace() else ""
            if self._blanks:
                return
        self._grow("text", text, steps)

    def _call(self, call: ToolCall, steps: list[Step]) -> None:
        self._blanks, self._logprobs = "", []
        self._begin("call", call, steps)
        self._grow("call", call.arguments, steps)
        self._close(steps)

    def _grow(self, kind: Kind, text: str, steps: list[Step]) -> None:
        block = self._open
        if block is None or block.kind != kind:
            block = self._begin(kind, None, steps)
            if kind == "text":
                self._logprobs = _of_text(self._logprobs, text)
        logprobs: list[TokenLogprob] = []
        if kind == "text" and self._logprobs:
            logprobs, self._logprobs = self._logprobs, []
        block.grow(text, logprobs)
        if text:
            steps.append(Step("grow", block, text, logprobs))

    def _begin(self, kind: Kind, call: ToolCall | None, steps: list[Step]) -> Block:
        self._close(steps)
        self._open = block = Block(len(self.blocks), kind, call)
        self.blocks.append(block)
        steps.append(Step("open", block))
        return block

    def _close(self, steps: list[Step]) -> None:
        block, self._open = self._open, None
        if block is not None:
            steps.append(Step("close", block))


def _of_text(logprobs: list[TokenLogprob], text: str) -> list[TokenLogprob]:
    """Those of the tokens that make a text, without those of marks in front of it."""
    start = b"".join(token.token_bytes for token in logprobs).rfind(text.encode())
    kept = 0
    while start > 0 and kept < len(logprobs):
        start -= len(logprobs[kept].token_bytes)
        kept += start >= 0
    return logprobs[kept:]
