"""`ResponseWriter`: an answer as OpenAI's Responses API says it, while it streams and as a whole.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnxgen.facade.results import Chunk, Completion, TokenLogprob
from onnxgen.server.formats.answer_blocks import AnswerBlocks, Block, Step
from onnxgen.server.formats.event_text import Event
from onnxgen.server.schemas.logprobs import shown_token

_ITEM_PREFIX = {"reasoning": "rs", "text": "msg", "call": "fc"}


class ResponseWriter:
    """Writes one response.

    Args:
        response: The response as it begins: its id, and what was asked for.
        new_id: Makes the id of an item from its prefix.
        now: Seconds since 1970.
        logprobs: Log probabilities of the tokens of texts are given.
    """

    def __init__(
        self,
        response: dict[str, Any],
        *,
        new_id: Callable[[str], str],
        now: Callable[[], float],
        logprobs: bool = False,
    ) -> None:
        self._response = {**response, "status": "in_progress", "output": []}
        self._new_id, self._now, self._with_logprobs = new_id, now, logprobs
        self._blocks = AnswerBlocks()
        self._ids: list[str] = []
        self._sequence = 0

    @property
    def response(self) -> dict[str, Any]:
        """The response so far."""
        return self._response

    def begin(self) -> list[Event]:
        """What a stream begins with."""
        return [
            self._event("response.created", response=self._response),
            self._event("response.in_progress", response=self._response),
        ]

    def push(self, chunk: Chunk) -> list[Event]:
        """What a piece of the answer adds; with the last one the response is whole."""
        events = [event for step in self._blocks.push(chunk) for event in self._step(step, "completed")]
        if chunk.completion is not None:
            events += self._end(chunk.completion)
        return events

    def fail(self, *, code: str, message: str) -> list[Event]:
        """What is said where the answer cannot go on.

        Args:
            code: One of the API's, such as ``server_error``.
            message: What happened.
        """
        events = [event for step in self._blocks.close() for event in self._step(step, "incomplete")]
        self._response = {
            **self._response,
            "status": "failed",
            "output": self._output("incomplete"),
            "error": {"code": code, "message": message},
        }
        return [*events, self._event("response.failed", response=self._response)]

    def _end(self, completion: Completion) -> list[Event]:
        whole = completion.finish_reason in ("eos", "stop", "tool_calls")
        status = "completed" if whole else "incomplete"
        events = [event for step in self._blocks.finish() for event in self._step(step, status)]
        self._response = {
            **self._response,
            "status": status,
            "output": self._output(status),
            "usage": self._usage(completion),
        }
        if whole:
            self._response["completed_at"] = int(self._now())
        else:
            self._response["incomplete_details"] = {"reason": "max_output_tokens"}
        return [*events, self._event(f"response.{status}", response=self._response)]

    def _usage(self, completion: Completion) -> dict[str, Any]:
        used = completion.usage
        return {
            "input_tokens": used.prompt_tokens,
            # nobody pays for writing to the prefix cache, and nothing is written at a client's wish
            "input_tokens_details": {"cached_tokens": used.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": used.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
            "total_tokens": used.prompt_tokens + used.completion_tokens,
        }

    def _output(self, last_status: str) -> list[dict[str, Any]]:
        """All items; only the last one can have been cut."""
        blocks = self._blocks.blocks
        last = len(blocks) - 1
        return [
            self._item(block, last_status if block.index == last and block.call is None else "completed")
            for block in blocks
        ]

    def _step(self, step: Step, status: str) -> list[Event]:
        """Events of a step; ``status`` is that of an item that closes with it."""
        block = step.block
        if step.what == "open":
            self._ids.append(self._new_id(_ITEM_PREFIX[block.kind]))
        item_id = self._ids[block.index]
        place: dict[str, Any] = {"item_id": item_id, "output_index": block.index}
        if block.kind == "call":
            return self._call_events(step, place)
        place["content_index"] = 0
        if step.what == "open":
            added = self._item(block, "in_progress", begun=False)
            return [
                self._event("response.output_item.added", output_index=block.index, item=added),
                self._event("response.content_part.added", **place, part=self._part(block)),
            ]
        name = "response.reasoning_text" if block.kind == "reasoning" else "response.output_text"
        is_text = block.kind == "text"
        if step.what == "grow":
            more = {"logprobs": self._logprobs(step.logprobs)} if is_text else {}
            return [self._event(f"{name}.delta", **place, delta=step.text, **more)]
        more = {"logprobs": self._logprobs(block.logprobs)} if is_text else {}
        return [
            self._event(f"{name}.done", **place, text=block.text, **more),
            self._event("response.content_part.done", **place, part=self._part(block)),
            self._event(
                "response.output_item.done", output_index=block.index, item=self._item(block, status)
            ),
        ]

    def _call_events(self, step: Step, place: dict[str, Any]) -> list[Event]:
        block, index = step.block, step.block.index
        name = "response.function_call_arguments"
        if step.what == "open":
            # clients add what follows to what the item has
            added = {**self._item(block, "in_progress"), "arguments": ""}
            return [self._event("response.output_item.added", output_index=index, item=added)]
        if step.what == "grow":
            return [self._event(f"{name}.delta", **place, delta=step.text)]
        assert block.call is not None
        return [
            self._event(f"{name}.done", **place, name=block.call.name, arguments=block.text),
            self._event("response.output_item.done", output_index=index, item=self._item(block, "completed")),
        ]

    def _item(self, block: Block, status: str, *, begun: bool = True) -> dict[str, Any]:
        item: dict[str, Any] = {"id": self._ids[block.index], "status": status}
        content = [self._part(block)] if begun and block.call is None else []
        if block.call is not None:
            call = block.call
            return {
                "type": "function_call",
                **item,
                "call_id": call.id,
                "name": call.name,
                "arguments": block.text,
            }
        if block.kind == "reasoning":
            return {"type": "reasoning", **item, "summary": [], "content": content}
        return {"type": "message", **item, "role": "assistant", "content": content}

    def _part(self, block: Block) -> dict[str, Any]:
        if block.kind == "reasoning":
            return {"type": "reasoning_text", "text": block.text}
        logprobs = self._logprobs(block.logprobs)
        return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": logprobs}

    def _logprobs(self, tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        if not self._with_logprobs:
            return []
        return [
            {**shown_token(token), "top_logprobs": [shown_token(other) for other in token.top]}
            for token in tokens
        ]

    def _event(self, type: str, **fields: Any) -> Event:
        event = {"type": type, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return event
