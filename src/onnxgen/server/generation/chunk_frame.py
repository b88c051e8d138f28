"""`ChunkFrame`: what stands around the choices in the chunks of a stream, of chat and of completions alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from onnxgen.facade.results import Completion
from onnxgen.server.generation.chat_answer import finish_reason
from onnxgen.server.generation.usage import usage_of

DONE = b"data: [DONE]\n\n"


class ChunkFrame:
    """What stands around the choices of one stream, in the bytes that go out.

    Args:
        head: What all chunks say.
        with_usage: A last chunk has the usage, and all others say that they have none.
        n: Answers to each prompt, whose tokens count once.

    Attributes:
        before: What stands before a choice.
        after: What stands behind one.
    """

    def __init__(self, head: Mapping[str, Any], *, with_usage: bool, n: int) -> None:
        self.before = b"data: " + to_json(head)[:-1] + b',"choices":['
        self.after = b'],"usage":null}\n\n' if with_usage else b"]}\n\n"
        self._with_usage, self._n = with_usage, n
        self._completions: dict[int, Completion] = {}

    def chunk(self, choice: Mapping[str, Any], *, more: Mapping[str, Any] | None = None) -> bytes:
        """A chunk with a choice, and perhaps further fields."""
        after = b"]," + to_json(more)[1:-1] + self.after[1:] if more else self.after
        return self.before + to_json(choice) + after

    def ended(self, index: int, completion: Completion) -> dict[str, Any]:
        """Fields of a choice that says why the answer ended; its usage counts."""
        self._completions[index] = completion
        return {"finish_reason": finish_reason(completion.finish_reason), "stop_reason": completion.stop}

    def end(self) -> bytes:
        """What comes after all answers have ended."""
        if not self._with_usage:
            return DONE
        usage = usage_of([self._completions[index] for index in sorted(self._completions)], n=self._n)
        return self.before + b'],"usage":' + to_json(usage) + b"}\n\n" + DONE
