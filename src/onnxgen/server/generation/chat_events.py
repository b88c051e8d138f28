"""`ChatEvents`: answers as chunks of a chat completion, in the bytes that go out.

::

    role (one for each answer), content and calls as they come, why it ended, [usage], [DONE]

Most chunks differ in one text only: what stands around it is made once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any

from pydantic_core import to_json

from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.generation.chat_answer import call_shape, logprobs_shape
from onnxgen.server.generation.chunk_frame import ChunkFrame
from onnxgen.server.generation.usage import timings_of


class ChatEvents:
    """Writes the events of one request.

    Args:
        id: Of the completion.
        created: Seconds since 1970.
        model: Who answers.
        fingerprint: Of the model and its configuration.
        n: How many answers there are.
        with_usage: A last chunk has the usage, and all others say that they have none.
        with_logprobs: Chunks have log probabilities.
        show_reasoning: Whether the reasoning is given.
        at_end: Further fields of the chunk that ends an answer.
    """

    def __init__(
        self,
        *,
        id: str,
        created: int,
        model: str,
        fingerprint: str,
        n: int,
        with_usage: bool,
        with_logprobs: bool,
        show_reasoning: bool,
        at_end: Callable[[Completion], dict[str, Any]],
    ) -> None:
        head = {
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "system_fingerprint": fingerprint,
        }
        self._frame = frame = ChunkFrame(head, with_usage=with_usage, n=n)
        self._before_text = [frame.before + b'{"index":%d,"delta":{"content":' % index for index in range(n)]
        self._after_text = b'},"logprobs":null,"finish_reason":null}' + frame.after
        self._n, self._with_logprobs = n, with_logprobs
        self._show_reasoning, self._at_end = show_reasoning, at_end
        self._num_calls = [0] * n
        self._has_content = [False] * n

    async def stream(self, answers: AsyncIterable[Chunk]) -> AsyncGenerator[bytes]:
        """All events, for the pieces of all answers."""
        yield self.begin()
        async for chunk in answers:
            if event := self.chunk(chunk):
                yield event
        yield self.end()

    def begin(self) -> bytes:
        """Who speaks."""
        return b"".join(
            self._event(index, {"role": "assistant", "content": None}) for index in range(self._n)
        )

    def chunk(self, chunk: Chunk) -> bytes:
        """What a piece of an answer adds; empty if nothing."""
        index = chunk.index
        if chunk.text:
            self._has_content[index] = True
            if not (
                self._with_logprobs or chunk.reasoning or chunk.tool_calls or chunk.finish_reason is not None
            ):
                return self._before_text[index] + to_json(chunk.text) + self._after_text
        delta = self._delta(chunk)
        logprobs = logprobs_shape(chunk.logprobs) if self._with_logprobs and chunk.logprobs else None
        if chunk.completion is None:
            return self._event(index, delta, logprobs=logprobs) if delta or logprobs else b""
        body = self._event(index, delta, logprobs=logprobs) if delta else b""
        return body + self._finish(index, chunk.completion, logprobs=None if delta else logprobs)

    def end(self) -> bytes:
        """What comes after all answers have ended."""
        return self._frame.end()

    def _delta(self, chunk: Chunk) -> dict[str, Any]:
        delta: dict[str, Any] = {}
        if chunk.reasoning and self._show_reasoning:
            delta["reasoning_content"] = delta["reasoning"] = chunk.reasoning
        if chunk.text:
            delta["content"] = chunk.text
        if chunk.tool_calls:
            first = self._num_calls[chunk.index]
            self._num_calls[chunk.index] += len(chunk.tool_calls)
            delta["tool_calls"] = [
                {"index": first + place, **call_shape(call)} for place, call in enumerate(chunk.tool_calls)
            ]
        return delta

    def _finish(self, index: int, completion: Completion, *, logprobs: Any) -> bytes:
        said_nothing = not self._has_content[index] and not self._num_calls[index]
        more = self._at_end(completion)
        if self._n == 1:
            more = {"timings": timings_of(completion), **more}
        return self._event(
            index,
            {"content": ""} if said_nothing else {},
            logprobs=logprobs,
            ended=self._frame.ended(index, completion),
            more=more,
        )

    def _event(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        logprobs: Any = None,
        ended: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            **(ended or {"finish_reason": None}),
        }
        return self._frame.chunk(choice, more=more)
