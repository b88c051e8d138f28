"""`AnswerPieces`: what is certain of an answer that is being read."""

from __future__ import annotations

from typing import NamedTuple

from onnxgen.preprocess.tool_calls.tools import ToolCall


class AnswerPieces(NamedTuple):
    """What became certain of an answer.

    Attributes:
        reasoning: More of what was thought.
        content: More of the text for the user.
        calls: Calls of tools, each whole.
    """

    reasoning: str = ""
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
