"""What `ResponseWriter` writes is what the API's own client reads, and a stream adds up to the whole."""

from __future__ import annotations

import itertools
import random
import secrets
from typing import Any

import pytest
from openai._types import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from answer_pieces_cases import call, chunks, random_pieces
from onnxgen.server.formats.responses_answer import ResponseWriter

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
_BEGUN = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "tiny",
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": None,
}


def _writer(**options: Any) -> ResponseWriter:
    numbers = itertools.count()
    return ResponseWriter(
        _BEGUN, new_id=lambda prefix: f"{prefix}_{next(numbers)}", now=lambda: 9.5, **options
    )


def _written(
    pieces: Any, *, logprobs: bool = False, **how: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    writer = _writer(logprobs=logprobs)
    events = writer.begin()
    for chunk in chunks(pieces, logprobs=logprobs, **how):
        events += writer.push(chunk)
    return events, writer.response


def _names(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_comes_in_the_order_that_the_api_has() -> None:
    events, _ = _written([("text", "Hel"), ("text", "lo")])
    assert _names(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[2]["item"]["content"] == []
    assert events[6]["text"] == "Hello"


def test_reasoning_text_and_calls_are_items_one_after_the_other() -> None:
    events, response = _written(
        [
            ("reasoning", "Hm"),
            ("text", "\n\n"),
            ("text", "Ok"),
            ("text", "."),
            ("call", call(1)),
            ("call", call(2)),
        ],
        finish="tool_calls",
    )
    reasoning, message, first, second = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Hm"}]
    assert message["content"][0]["text"] == "\n\nOk."
    assert (first["call_id"], second["call_id"]) == ("call_1", "call_2")
    assert first["arguments"] == '{"city": "Lima"}'
    assert len({item["id"] for item in response["output"]}) == 4
    assert [item["status"] for item in response["output"]] == ["completed"] * 4
    assert [e["output_index"] for e in events if e["type"].endswith("item.added")] == [0, 1, 2, 3]
    assert response["usage"]["output_tokens_details"] == {"reasoning_tokens": 1}


def test_blanks_between_reasoning_and_a_call_make_no_message() -> None:
    _, response = _written(
        [("reasoning", "Hm"), ("text", "\n"), ("text", " "), ("call", call(1))], finish="tool_calls"
    )
    assert [item["type"] for item in response["output"]] == ["reasoning", "function_call"]


@pytest.mark.parametrize("pieces", [[], [("text", " \n")]], ids=["nothing", "blanks"])
def test_an_answer_that_says_nothing_is_an_empty_message(pieces: Any) -> None:
    _, response = _written(pieces)
    assert [part["text"] for part in response["output"][0]["content"]] == [
        "".join(text for _, text in pieces)
    ]


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        ("eos", "completed"),
        ("stop", "completed"),
        ("tool_calls", "completed"),
        ("length", "incomplete"),
        ("deadline", "incomplete"),
    ],
)
def test_how_an_answer_ended_is_the_status(finish: str, status: str) -> None:
    events, response = _written([("text", "Hel")], finish=finish)
    assert events[-1]["type"] == f"response.{status}"
    assert response["status"] == response["output"][-1]["status"] == status
    assert ("completed_at" in response) == (status == "completed")
    expected = None if status == "completed" else {"reason": "max_output_tokens"}
    assert response["incomplete_details"] == expected


def test_only_the_last_item_was_cut() -> None:
    _, response = _written([("reasoning", "Hm"), ("text", "Hel")], finish="length")
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_usage_counts_what_was_cached() -> None:
    _, response = _written([("text", "Hi")], prompt=11, cached=4)
    assert response["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }


def test_a_failure_ends_what_is_open_and_keeps_what_was_said() -> None:
    writer = _writer()
    events = writer.begin()
    for chunk in chunks([("text", "Hel"), ("text", "lo")])[:1]:
        events += writer.push(chunk)
    events += writer.fail(code="server_error", message="the engine died")
    assert _names(events)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    assert writer.response["status"] == "failed"
    assert writer.response["error"] == {"code": "server_error", "message": "the engine died"}
    assert writer.response["output"][0]["content"][0]["text"] == "Hel"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_log_probabilities_are_those_of_the_text() -> None:
    pieces = [("reasoning", "Hm"), ("text", "Hel"), ("text", "lo")]
    events, response = _written(pieces, logprobs=True)
    told = response["output"][1]["content"][0]["logprobs"]
    assert [entry["token"] for entry in told] == ["Hel", "lo"]
    assert told[0]["top_logprobs"][0] == {"token": "Hel", "bytes": list(b"Hel"), "logprob": -0.5}
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert [entry for delta in deltas for entry in delta] == told


def test_streams_add_up_and_are_what_the_client_reads() -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(150):
        pieces = random_pieces(rng)
        finish = rng.choice(("eos", "tool_calls", "stop", "length"))
        events, response = _written(
            pieces, finish=finish, rest=rng.random() < 0.5, logprobs=rng.random() < 0.5
        )
        state = ResponseStreamState(input_tools=omit, text_format=omit)
        by_item: dict[int, dict[str, Any]] = {}
        deltas: dict[int, str] = {}
        for event in events:
            state.handle_event(_EVENT.validate_python(event))
            if event["type"].endswith(".delta"):
                index = event["output_index"]
                deltas[index] = deltas.get(index, "") + event["delta"]
            elif event["type"] == "response.output_item.added":
                deltas[event["output_index"]] = event["item"].get("arguments", "")
            elif event["type"] == "response.output_item.done":
                by_item[event["output_index"]] = event["item"]
        Response.model_validate(response, strict=True)
        assert [by_item[index] for index in sorted(by_item)] == response["output"]
        for index, item in by_item.items():
            whole = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
            assert deltas[index] == whole
        said = [what for kind, what in pieces if kind == "text"]
        shown = [item["content"][0]["text"] for item in response["output"] if item["type"] == "message"]
        assert "".join("".join(shown).split()) == "".join("".join(said).split())
        thought = "".join(what for kind, what in pieces if kind == "reasoning")
        kept = [item["content"][0]["text"] for item in response["output"] if item["type"] == "reasoning"]
        assert "".join(kept) == thought
