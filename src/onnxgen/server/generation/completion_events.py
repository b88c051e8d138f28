"""`CompletionEvents`: answers to prompts as chunks of a completion, in the bytes that go out.

::

    [the echoed prompt], text as it comes, why it ended (for each answer), [usage], [DONE]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from onnxgen.facade.results import Chunk, Completion, TokenLogprob
from onnxgen.server.generation.chunk_frame import ChunkFrame
from onnxgen.server.generation.completion_ask import CompletionAsk
from onnxgen.server.generation.completion_logprobs import answer_logprobs
from onnxgen.server.generation.large_requests import MAX_TOLD_INLINE
from onnxgen.server.generation.usage import timings_of

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class CompletionEvents:
    """Writes the events of one request.

    Args:
        ask: What was asked.
        head: What all chunks say.
        tokenizer: The model's.
    """

    def __init__(self, ask: CompletionAsk, head: dict[str, Any], tokenizer: Tokenizer) -> None:
        self._ask, self._tokenizer = ask, tokenizer
        self._num = len(ask.prompts) * ask.n
        self._frame = frame = ChunkFrame(head, with_usage=ask.fields.wants_usage, n=ask.n)
        self._before_text = [frame.before + b'{"index":%d,"text":' % index for index in range(self._num)]
        self._after_text = b',"logprobs":null,"finish_reason":null}' + frame.after
        self._is_plain = not ask.shows_logprobs and not ask.fields.return_token_ids
        self._begun = [not (ask.fields.echo or ask.fields.return_token_ids)] * self._num
        self._told: dict[int, Sequence[TokenLogprob | None]] = {}

    async def stream(self, answers: AsyncIterable[Chunk]) -> AsyncGenerator[bytes]:
        """All events, for the pieces of all answers."""
        async for chunk in answers:
            is_long = self._begins_long_echo(chunk.index)
            event = await asyncio.to_thread(self.chunk, chunk) if is_long else self.chunk(chunk)
            if event:
                yield event
        yield self._frame.end()

    def chunk(self, chunk: Chunk) -> bytes:
        """What a piece of an answer adds; empty if nothing."""
        index = chunk.index
        if chunk.prompt_logprobs is not None:
            self._told[index // self._ask.n] = chunk.prompt_logprobs
        first = b""
        if not self._begun[index]:
            self._begun[index] = True
            first = self._begin(index)
        if chunk.completion is not None:
            return first + self._finish(chunk, chunk.completion)
        if not chunk.text and (self._is_plain or not chunk.token_ids):
            return first
        if self._is_plain:
            return first + self._before_text[index] + to_json(chunk.text) + self._after_text
        return first + self._event(index, chunk.text, logprobs=chunk.logprobs, token_ids=chunk.token_ids)

    def _begins_long_echo(self, index: int) -> bool:
        """Whether the next piece of an answer comes with log probabilities of a long prompt."""
        ask = self._ask
        if self._begun[index] or not ask.echoes or not ask.shows_logprobs:
            return False
        return len(ask.echoes[index // ask.n].token_ids) > MAX_TOLD_INLINE

    def _begin(self, index: int) -> bytes:
        """The prompt, before the first piece of an answer to it."""
        ask, place = self._ask, index // self._ask.n
        choice: dict[str, Any] = {"index": index, "text": "", "logprobs": None, "finish_reason": None}
        if ask.fields.echo:
            echo = ask.echoes[place]
            choice["text"] = echo.text
            if ask.fields.logprobs is not None:
                told = self._told.get(place)
                choice["logprobs"] = echo.logprobs(told, self._tokenizer, top=ask.fields.logprobs)
        if ask.fields.return_token_ids:
            choice |= {"token_ids": [], "prompt_token_ids": ask.prompt_ids[place]}
        return self._frame.chunk(choice)

    def _finish(self, chunk: Chunk, completion: Completion) -> bytes:
        end = completion.end_logprob
        return self._event(
            chunk.index,
            chunk.text,
            logprobs=(*chunk.logprobs, *(() if end is None else (end,))),
            token_ids=chunk.token_ids,
            ended=self._frame.ended(chunk.index, completion),
            more={"timings": timings_of(completion)} if self._num == 1 else {},
        )

    def _event(
        self,
        index: int,
        text: str,
        *,
        logprobs: Sequence[TokenLogprob],
        token_ids: Sequence[int],
        ended: dict[str, Any] | None = None,
        more: dict[str, Any] | None = None,
    ) -> bytes:
        ask = self._ask
        begin = len(ask.echoes[index // ask.n].text) if ask.echoes else 0
        shows = ask.shows_logprobs and logprobs
        choice = {
            "index": index,
            "text": text,
            "logprobs": answer_logprobs(logprobs, begin=begin) if shows else None,
            **(ended or {"finish_reason": None}),
        }
        if ask.fields.return_token_ids:
            choice["token_ids"] = list(token_ids)
        return self._frame.chunk(choice, more=more)
