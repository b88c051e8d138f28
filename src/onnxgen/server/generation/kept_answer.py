"""`KeptAnswer`: an answer that becomes part of a conversation which the server keeps."""

from __future__ import annotations

from onnxgen.facade.results import Chunk, Completion
from onnxgen.preprocess.tool_calls.messages import answer_message
from onnxgen.preprocess.tool_calls.tools import ToolCall
from onnxgen.server.generation.answers import Answers
from onnxgen.server.sessions.session import Turn


class KeptAnswer:
    """Hears an answer, and remembers it at its end: what came of it if the client stopped it, nothing if it failed.

    An answer that is whole is remembered before its client has the end of it, or a quick one's next question would find
    the conversation in use.

    Args:
        turn: Of the conversation.
        answers: The one answer.
    """

    def __init__(self, turn: Turn, answers: Answers) -> None:
        self._turn, self._answers = turn, answers
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []
        answers.listen(self._hear)

    def remember(self) -> None:
        """The answers are closed."""
        has_pieces = self._text or self._reasoning or self._calls
        if self._turn.is_open and self._answers.outcome == "cancelled" and has_pieces:
            message = answer_message("".join(self._text), "".join(self._reasoning), self._calls)
            self._turn.remember(message)

    def _hear(self, chunk: Chunk) -> None:
        if chunk.completion is not None:
            self._turn.remember(chunk.completion.message, token_count=session_tokens(chunk.completion))
            self._turn.end()
            return
        if chunk.text:
            self._text.append(chunk.text)
        if chunk.reasoning:
            self._reasoning.append(chunk.reasoning)
        self._calls += chunk.tool_calls


def session_tokens(completion: Completion) -> int:
    """Tokens of a conversation up to the end of an answer."""
    return completion.usage.prompt_tokens + completion.usage.completion_tokens
