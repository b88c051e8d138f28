"""What `MessageWriter` writes is what the API's own client reads, and a stream adds up to the whole."""

from __future__ import annotations

import random
import secrets
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from answer_pieces_cases import call, chunks, random_pieces
from onnxgen.server.formats.messages_answer import MessageWriter

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def _written(
    pieces: Any, *, thinking: Any = "shown", max_tokens: int = 1, **how: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    writer = MessageWriter(id="msg_1", model="tiny", thinking=thinking, max_tokens=max_tokens)
    events = writer.begin(prompt_tokens=11)
    for chunk in chunks(pieces, **how):
        events += writer.push(chunk)
    return events, writer.message


def test_a_text_comes_in_the_order_that_the_api_has() -> None:
    events, message = _written([("text", "Hel"), ("text", "lo")])
    assert [event["type"] for event in events] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["content"] == []
    assert events[0]["message"]["stop_reason"] is None
    assert message["content"] == [{"type": "text", "text": "Hello"}]


def test_thoughts_texts_and_uses_of_tools_are_blocks() -> None:
    pieces = [("reasoning", "Hm"), ("text", "Ok"), ("call", call(1)), ("call", call(2, arguments="{}"))]
    events, message = _written(pieces, finish="tool_calls")
    thinking, text, first, second = message["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "Hm")
    assert thinking["signature"]
    assert text == {"type": "text", "text": "Ok"}
    assert first == {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Lima"}}
    assert second["input"] == {}
    assert message["stop_reason"] == "tool_use"
    signatures = [e["delta"] for e in events if e.get("delta", {}).get("type") == "signature_delta"]
    assert signatures == [{"type": "signature_delta", "signature": thinking["signature"]}]


def test_half_a_pair_that_a_model_escaped_becomes_text() -> None:
    _, message = _written([("call", call(1, arguments='{"a": "x\\ud800y", "b": "\\ud83d\\ude00"}'))])
    assert message["content"][0]["input"] == {"a": "x?y", "b": "😀"}


def test_thoughts_that_nobody_asked_for_are_left_out() -> None:
    events, message = _written([("reasoning", "Hm"), ("text", "\n\nOk")], thinking="none")
    assert message["content"] == [{"type": "text", "text": "\n\nOk"}]
    assert "Hm" not in str(events)
    assert message["usage"]["output_tokens"] == 2


def test_thoughts_may_be_left_out_of_their_blocks() -> None:
    events, message = _written([("reasoning", "Hm"), ("text", "Ok")], thinking="omitted")
    assert message["content"][0]["thinking"] == ""
    assert message["content"][0]["signature"]
    assert "Hm" not in str(events)


@pytest.mark.parametrize(
    ("finish", "stop", "max_tokens", "reason", "sequence"),
    [
        ("eos", None, 9, "end_turn", None),
        ("tool_calls", None, 9, "tool_use", None),
        ("stop", "END", 9, "stop_sequence", "END"),
        ("stop", 5, 9, "end_turn", None),
        ("length", None, 1, "max_tokens", None),
        ("length", None, 2, "model_context_window_exceeded", None),
        ("deadline", None, 9, "max_tokens", None),
        ("cancelled", None, 9, "max_tokens", None),
    ],
)
def test_why_an_answer_stopped(
    finish: str, stop: str | int | None, max_tokens: int, reason: str, sequence: str | None
) -> None:
    events, message = _written([("text", "Hi")], finish=finish, stop=stop, max_tokens=max_tokens)
    assert (message["stop_reason"], message["stop_sequence"]) == (reason, sequence)
    assert events[-2]["delta"] == {"stop_reason": reason, "stop_sequence": sequence}


def test_usage_counts_what_was_cached_apart() -> None:
    events, message = _written([("text", "Hi")], prompt=11, cached=4)
    assert message["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 1,
        "output_tokens_details": {"thinking_tokens": 0},
    }
    assert events[-2]["usage"] == message["usage"]


def test_streams_add_up_and_are_what_the_client_reads() -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(150):
        events, message = _written(
            random_pieces(rng),
            finish=rng.choice(("eos", "tool_calls", "length")),
            rest=rng.random() < 0.5,
            thinking=rng.choice(("shown", "omitted", "none")),
        )
        Message.model_validate(message, strict=True)
        snapshot: Any = None
        buffers: dict[int, bytes] = {}
        for event in events:
            if event["type"] != "ping":
                snapshot = accumulate_event(
                    event=_EVENT.validate_python(event), current_snapshot=snapshot, json_bufs=buffers
                )
        assert snapshot.to_dict()["content"] == message["content"]
        assert snapshot.usage.input_tokens == message["usage"]["input_tokens"]
        assert snapshot.stop_reason == message["stop_reason"]
