"""`AnswerReader`: what a model says, told apart while it comes: what it thinks, what it answers, what it calls.

::

    text, token ──> reasoning splitter ──> reasoning
                            └────────────> tool-call parser ──> calls
                                                  └───────────> content
"""

from __future__ import annotations

from typing import Protocol

from onnxgen.preprocess.answer_pieces import AnswerPieces
from onnxgen.preprocess.reasoning import ReasoningSplitter
from onnxgen.preprocess.tool_calls.parser import ToolCallParser


class AnswerReader(Protocol):
    """Reads one answer."""

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes now is reasoning."""
        ...

    def push(self, text: str, token_id: int | None = None) -> AnswerPieces:
        """Take the next piece of text, and the token that it is of."""
        ...

    def flush(self, *, complete: bool) -> AnswerPieces:
        """What is held back, at the end of the answer.

        Args:
            complete: The model ended it. False: it was cut, and a call that is not whole is none.
        """
        ...


class MarkedReader:
    """Reads answers in which marks stand around reasoning and around calls.

    Args:
        splitter: Tells reasoning apart; None: there is none.
        parser: Finds calls; None: there are none.
    """

    def __init__(self, splitter: ReasoningSplitter | None, parser: ToolCallParser | None) -> None:
        self._splitter = splitter
        self._parser = parser

    @property
    def in_reasoning(self) -> bool:
        """See `AnswerReader`."""
        return self._splitter is not None and self._splitter.in_reasoning

    def push(self, text: str, token_id: int | None = None) -> AnswerPieces:
        """See `AnswerReader`."""
        reasoning = ""
        if self._splitter is not None:
            thought_before = self._splitter.in_reasoning
            reasoning, text = self._splitter.push(text, token_id)
            if thought_before and self._splitter.in_reasoning:
                token_id = None  # marks of calls in what is thought are text
        if self._parser is None:
            return AnswerPieces(reasoning, text)
        parsed = self._parser.push(text, token_id)
        return AnswerPieces(reasoning, parsed.content, parsed.calls)

    def flush(self, *, complete: bool) -> AnswerPieces:
        """See `AnswerReader`."""
        reasoning = rest = ""
        if self._splitter is not None:
            reasoning, rest = self._splitter.flush()
        if self._parser is None:
            return AnswerPieces(reasoning, rest)
        first, last = self._parser.push(rest), self._parser.flush(complete=complete)
        return AnswerPieces(reasoning, first.content + last.content, (*first.calls, *last.calls))
