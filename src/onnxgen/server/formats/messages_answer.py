"""`MessageWriter`: an answer as Anthropic's Messages API says it, while it streams and as a whole.

Source: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Literal

from pydantic_core import PydanticSerializationError, to_json

from onnxgen.facade.results import Chunk, Completion
from onnxgen.server.formats.answer_blocks import AnswerBlocks, Block, Step
from onnxgen.server.formats.event_text import Event

Thinking = Literal["shown", "omitted", "none"]


class MessageWriter:
    """Writes one message.

    Args:
        id: Of the message.
        model: As clients call it.
        thinking: Reasoning is ``shown``; ``omitted``: there are blocks of it, without its text; ``none``: there are none,
            as the API has it where thinking was not asked for.
        max_tokens: What the client allowed, to tell an answer that reached it from one that filled the context.
    """

    def __init__(self, *, id: str, model: str, thinking: Thinking, max_tokens: int) -> None:
        self._blocks = AnswerBlocks(show_reasoning=thinking != "none")
        self._omits = thinking == "omitted"
        self._max_tokens = max_tokens
        self._message: dict[str, Any] = {
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": None,
        }

    @property
    def message(self) -> dict[str, Any]:
        """The message so far."""
        return self._message

    def begin(self, *, prompt_tokens: int) -> list[Event]:
        """What a stream begins with. How many tokens of the prompt were cached, is only known at its end."""
        self._message["usage"] = {"input_tokens": prompt_tokens, "output_tokens": 0}
        return [{"type": "message_start", "message": self._message}, {"type": "ping"}]

    def push(self, chunk: Chunk) -> list[Event]:
        """What a piece of the answer adds; with the last one the message is whole."""
        events = [event for step in self._blocks.push(chunk) for event in self._step(step)]
        if chunk.completion is not None:
            events += self._end(chunk.completion)
        return events

    def _end(self, completion: Completion) -> list[Event]:
        events = [event for step in self._blocks.finish() for event in self._step(step)]
        usage = _usage(completion)
        reason = self._stop_reason(completion)
        stopped = {
            "stop_reason": reason,
            "stop_sequence": completion.stop if reason == "stop_sequence" else None,
        }
        content = [self._content(block, whole=True) for block in self._blocks.blocks]
        self._message = {**self._message, "content": content, **stopped, "usage": usage}
        return [
            *events,
            {"type": "message_delta", "delta": stopped, "usage": usage},
            {"type": "message_stop"},
        ]

    def _step(self, step: Step) -> list[Event]:
        block, index = step.block, step.block.index
        if step.what == "open":
            content = self._content(block, whole=False)
            return [{"type": "content_block_start", "index": index, "content_block": content}]
        if step.what == "grow":
            return (
                [] if self._omits and block.kind == "reasoning" else [_delta(index, _more(block, step.text))]
            )
        events = [{"type": "content_block_stop", "index": index}]
        if block.kind == "reasoning":
            events.insert(0, _delta(index, {"type": "signature_delta", "signature": _signature(block.text)}))
        return events

    def _content(self, block: Block, *, whole: bool) -> dict[str, Any]:
        """A block as part of a message; one that is not whole is without what its deltas bring."""
        if block.call is not None:
            given = _arguments(block.text) if whole else {}
            return {"type": "tool_use", "id": block.call.id, "name": block.call.name, "input": given}
        text = block.text if whole else ""
        if block.kind == "text":
            return {"type": "text", "text": text}
        shown = "" if self._omits else text
        return {"type": "thinking", "thinking": shown, "signature": _signature(text) if whole else ""}

    def _stop_reason(self, completion: Completion) -> str:
        match completion.finish_reason:
            case "tool_calls":
                return "tool_use"
            case "eos":
                return "end_turn"
            case "stop":  # a stop token is the model's own way to end
                return "stop_sequence" if isinstance(completion.stop, str) else "end_turn"
            case "length" if completion.usage.completion_tokens < self._max_tokens:
                return "model_context_window_exceeded"
            case _:
                return "max_tokens"


def _usage(completion: Completion) -> dict[str, Any]:
    """Tokens as the API counts them: those of the prompt that were cached apart from the others."""
    used = completion.usage
    return {
        "input_tokens": used.prompt_tokens - used.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": used.cached_tokens,
        "output_tokens": used.completion_tokens,
        "output_tokens_details": {"thinking_tokens": used.reasoning_tokens},
    }


def _delta(index: int, delta: dict[str, Any]) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _more(block: Block, text: str) -> dict[str, Any]:
    match block.kind:
        case "reasoning":
            return {"type": "thinking_delta", "thinking": text}
        case "call":
            return {"type": "input_json_delta", "partial_json": text}
        case _:
            return {"type": "text_delta", "text": text}


def _arguments(text: str) -> Any:
    """Arguments as what they are; half a surrogate pair, which the model may have written as an escape, becomes ``?``."""
    given = json.loads(text)
    try:
        to_json(given)
    except PydanticSerializationError:
        return json.loads(json.dumps(given, ensure_ascii=False).encode(errors="replace"))
    return given


def _signature(text: str) -> str:
    """What clients send back with a thought. It proves nothing, and nobody checks it: some clients want one to be there."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
