"""`KeptAnswer`: an answer that becomes part of a conversation which the server keeps."""

from __future__ import annotations

from onnxgen.facade.results import Chunk, Completion
from onnxgen.preprocess.tool_calls.messages import answer_message
from onnxgen.preprocess.tool_calls.tools import ToolCall
from onnxgen.server.generation.answers import Answers
from onnxgen.server.sessions.session import Turn


class KeptAnswer:
    """Hears an answer, and remembers it at its end: what came of it if the client stopped it, nothing if it failed.

    Args:
        turn: Of the conversation.
        answers: The one answer.
    """

    def __init__(self, turn: Turn, answers: Answers) -> None:
        self._turn, self._answers = turn, answers
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        self._completion: Completion | None = None
        answers.listen(self._hear)

    def remember(self) -> None:
        """The answers are closed."""
        if self._completion is not None:
            self._turn.remember(self._completion.message, token_count=session_tokens(self._completion))
        elif self._answers.outcome == "cancelled" and (self._text or self._reasoning or self._calls):
            message = answer_message("".join(self._text), "".join(self._reasoning), self._calls)
            self._turn.remember(message)

    def _hear(self, chunk: Chunk) -> None:
        if chunk.text:
            self._text.append(chunk.text)
        if chunk.reasoning:
            self._reasoning.append(chunk.reasoning)
        self._calls += chunk.tool_calls
        self._completion = chunk.completion or self._completion


def session_tokens(completion: Completion) -> int:
    """Tokens of a conversation up to the end of an answer."""
    return completion.usage.prompt_tokens + completion.usage.completion_tokens
