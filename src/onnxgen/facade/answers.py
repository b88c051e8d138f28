"""`Answers`: some answers while they grow, from what the engine says of them to pieces of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from onnxgen.engine.events import EngineEvent
from onnxgen.errors import OnnxgenError
from onnxgen.facade.answer import Answer, counted
from onnxgen.facade.results import Chunk


class Answers:
    """Some answers while they grow.

    Args:
        answers: Fresh ones, by index.
        stop: Called with the event whose token completed a stop text: ends that sample in the engine.
    """

    def __init__(self, answers: Sequence[Answer], *, stop: Callable[[EngineEvent], None]) -> None:
        self._answers = answers
        self._stop = stop
        self._open = set(range(len(answers)))
        # by a stop text, while the engine has not yet said what was used
        self._stopped: dict[int, Chunk] = {}

    @property
    def all_ended(self) -> bool:
        """Whether nothing more will be heard."""
        return not self._open

    def hear(self, event: EngineEvent, index: int) -> Chunk | OnnxgenError | None:
        """Something happened to the answer with this index; returns a piece of it, or what it ended with."""
        if index not in self._open:
            return None
        if event.finish_reason is not None:
            self._open.discard(index)
        if index in self._stopped:
            return _with_usage(self._stopped.pop(index), event) if event.finish_reason is not None else None
        if event.error is not None:
            return event.error
        chunk = self._answers[index].push(event)
        if chunk is None or chunk.finish_reason is None or event.finish_reason is not None:
            return chunk
        # a stop text: its end comes with what the engine says about the request's end
        self._stop(event)
        self._stopped[index] = chunk
        return (
            replace(chunk, finish_reason=None, completion=None)
            if chunk.text or chunk.token_ids or chunk.reasoning or chunk.tool_calls or chunk.prompt_logprobs
            else None
        )


def _with_usage(stopped: Chunk, end: EngineEvent) -> Chunk:
    """The last piece of an answer that a stop text ended; what else there was to show was shown at once."""
    completion = stopped.completion
    if completion is not None and end.usage is not None:
        completion = replace(
            completion,
            usage=counted(completion.usage, end.usage),
            timings=replace(completion.timings, queue_s=end.usage.queued_s),
        )
    return replace(
        stopped,
        text="",
        token_ids=(),
        reasoning="",
        logprobs=(),
        tool_calls=(),
        prompt_logprobs=None,
        completion=completion,
    )
