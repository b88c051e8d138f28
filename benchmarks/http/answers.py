"""What an exchange says, and whether it is what a client may rely on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.http.client import Exchange

_MOST_SHOWN = 200  # characters of somebody's text in a message


@dataclass
class Answer:
    """One streamed answer.

    Attributes:
        sent_s: When it was asked for, in seconds of the client's clock.
        ended_s: When the last byte came.
        text: All pieces.
        piece_s: When each piece with text came.
        prompt_tokens: As the server counts them.
        new_tokens: Likewise.
        cached_tokens: Prompt tokens that were not computed, if the server says so.
        finish_reason: Of its end.
        problems: What is wrong with it, in words.
        left: Whether the client went before the end, on purpose.
    """

    sent_s: float
    ended_s: float
    text: str = ""
    piece_s: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int | None = None
    finish_reason: str | None = None
    problems: list[str] = field(default_factory=list)
    left: bool = False


def read_answer(exchange: Exchange) -> Answer:
    """The answer of a streaming request with one choice and ``stream_options.include_usage``.

    A stream is right if it has status 200, one id, the role before any text, exactly one finish reason with nothing but
    the usage after it, one usage, and ``[DONE]`` as its last event.
    """
    answer = Answer(exchange.sent_s, exchange.ended_s, left=exchange.left)
    say = answer.problems.append
    if exchange.failure is not None:
        say(exchange.failure)
    if exchange.status != 200 or not exchange.headers.get("content-type", "").startswith("text/event-stream"):
        say(f"status {exchange.status}: {exchange.body[:_MOST_SHOWN].decode(errors='replace')}")
        return answer
    if exchange.body:
        say(f"after the last event there is {exchange.body[:_MOST_SHOWN]!r}")
    reader = _Reader(answer)
    for data, when in zip(exchange.events, exchange.event_s, strict=True):
        reader.take(data, when)
    if not exchange.left:
        reader.end()
    return answer


class _Reader:
    def __init__(self, answer: Answer) -> None:
        self._answer, self._say = answer, answer.problems.append
        self._ids: set[Any] = set()
        self._has_role = False
        self._done = self._usages = 0

    def take(self, data: bytes, when: float) -> None:
        if self._done:
            self._say("an event follows [DONE]")
        if data == b"[DONE]":
            self._done += 1
            return
        try:
            event = json.loads(data)
        except ValueError:
            self._say(f"an event is no JSON: {data[:_MOST_SHOWN]!r}")
            return
        if "error" in event:
            self._say(f"an error in the stream: {str(event['error'])[:_MOST_SHOWN]}")
            return
        self._ids.add(event.get("id"))
        for choice in event.get("choices", ()):
            self._take_choice(choice, when)
        if event.get("usage"):
            self._take_usage(event["usage"])

    def _take_choice(self, choice: Mapping[str, Any], when: float) -> None:
        answer = self._answer
        if choice.get("index", 0) != 0:
            self._say(f"choice {choice['index']} was not asked for")
        if answer.finish_reason is not None:
            self._say("a piece follows the finish reason")
        delta = choice.get("delta")
        piece = choice.get("text") if delta is None else delta.get("content")
        self._has_role |= delta is None or delta.get("role") == "assistant"
        if piece:
            if not self._has_role:
                self._say("text comes before the role")
                self._has_role = True  # said once
            answer.text += piece
            answer.piece_s.append(when)
        if choice.get("finish_reason") is not None:
            answer.finish_reason = choice["finish_reason"]

    def _take_usage(self, usage: Mapping[str, Any]) -> None:
        answer = self._answer
        self._usages += 1
        answer.prompt_tokens, answer.new_tokens = usage["prompt_tokens"], usage["completion_tokens"]
        answer.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")

    def end(self) -> None:
        if len(self._ids) > 1:
            self._say(f"{len(self._ids)} ids in one stream")
        if self._answer.finish_reason is None:
            self._say("no finish reason")
        if self._usages != 1:
            self._say(f"{self._usages} usages, 1 was asked for")
        if self._done != 1:
            self._say("no [DONE]")
