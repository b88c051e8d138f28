"""One answer: written as it comes, stopped by Ctrl-C, and described by its numbers."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import IO, TYPE_CHECKING

from onnxgen.cli.conversations import Conversation
from onnxgen.cli.terminal import paint
from onnxgen.foundations.disk import format_bytes

if TYPE_CHECKING:
    from onnxgen.facade.llm import Chunk, Completion


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as far as it came.

    Attributes:
        completion: The whole answer with its numbers; None if it was stopped before it ended.
        num_tokens: Tokens that came.
    """

    completion: Completion | None
    num_tokens: int


def stream_answer(conversation: Conversation, text: str, out: IO[str]) -> Answer:
    """Ask, and write the answer; see `write_answer`."""
    return write_answer(lambda: conversation.send(text), out)


def write_answer(ask: Callable[[], Iterator[Chunk]], out: IO[str]) -> Answer:
    """Write an answer as it comes (reasoning before it, paler on a terminal), and end it with a line break.

    Calls of tools are lines of JSON.

    Ctrl-C ends the answer after the token under way; the conversation stays usable.

    Raises:
        KeyboardInterrupt: A second Ctrl-C before that.
    """
    num_tokens, completion, page = 0, None, _Page(out)
    with _interruptions() as interrupted:
        chunks = ask()
        try:
            for chunk in chunks:
                page.write(chunk)
                num_tokens += len(chunk.token_ids)
                completion = chunk.completion or completion
                if interrupted.is_set():
                    break
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
            page.end_line()
    return Answer(completion, num_tokens)


class _Page:
    """Where an answer is written: reasoning, text, and lines with calls of tools."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._is_in_line = False
        self._thinks = False

    def write(self, chunk: Chunk) -> None:
        from onnxgen.preprocess.tool_calls.messages import call_message

        if chunk.reasoning and not self._thinks:
            self.end_line()  # of an answer that goes on thinking
            self._thinks = True
        self._put(paint(chunk.reasoning, "dim", self._out) if chunk.reasoning else "", chunk.reasoning)
        if self._thinks and (chunk.text or chunk.tool_calls):
            self._put("\n\n" if self._is_in_line else "\n")  # the answer begins
            self._thinks = False
        self._put(chunk.text)
        for call in chunk.tool_calls:
            self.end_line()
            self._put(json.dumps(call_message(call), ensure_ascii=False) + "\n")
        self._out.flush()

    def end_line(self) -> None:
        if self._is_in_line:
            self._put("\n")
            self._out.flush()

    def _put(self, written: str, text: str | None = None) -> None:
        if written:
            self._out.write(written)
            self._is_in_line = not (text or written).endswith("\n")


@contextmanager
def _interruptions() -> Generator[threading.Event]:
    """While the block runs, the first Ctrl-C sets the event; a second one interrupts at once."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def statistics(answer: Answer) -> str:
    """One line about an answer; what was not measured is left out."""
    parts: list[str] = []
    if completion := answer.completion:
        usage, timings = completion.usage, completion.timings
        cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
        parts.append(f"prompt {usage.prompt_tokens} tokens{cached}{_rate(timings.prefill_tok_s)}")
        parts.append(f"answer {usage.completion_tokens} tokens{_rate(timings.decode_tok_s)}")
        if timings.ttft_s is not None:
            parts.append(f"first token {timings.ttft_s:.3f} s")
        if usage.draft_tokens:
            parts.append(f"guessed {usage.draft_tokens} tokens, {usage.accepted_draft_tokens} of them right")
        parts.append(f"finish: {completion.finish_reason}")
    else:
        parts.append(f"answer {answer.num_tokens} tokens, stopped")
    if (peak := peak_memory_bytes()) is not None:
        parts.append(f"peak memory {format_bytes(peak)}")
    return "; ".join(parts)


def _rate(tokens_per_second: float | None) -> str:
    return "" if tokens_per_second is None else f" at {tokens_per_second:.1f} tok/s"


def peak_memory_bytes() -> int | None:
    """The most memory this process has held; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
