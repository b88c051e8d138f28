"""Requests with anything in any place are answered or refused, never failed at."""

from __future__ import annotations

import copy
import json
import random
import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from onnxgen.server.app import create_app
from scripted_server import scripted_services
from server_doubles import running
from tool_models import user

_SCHEMA: Any = {"type": "object", "properties": {"a": {"type": "string"}}}
_ASKS: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So", "annotations": []}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "1"},
        ],
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": _SCHEMA, "strict": True, "description": "d"}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": _SCHEMA, "strict": True}},
        "reasoning": {"effort": "low", "summary": "auto"},
        "metadata": {"a": "b"},
        "include": ["message.output_text.logprobs"],
        "previous_response_id": None,
        "truncation": "auto",
        "parallel_tool_calls": False,
        "top_logprobs": 1,
        "temperature": 0.5,
        "max_output_tokens": 3,
    },
    "/v1/messages": {
        "max_tokens": 3,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": "s"},
                    {"type": "text", "text": "So"},
                    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": "b"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "1"}], "is_error": True},
                    {"type": "text", "text": "And?"},
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": _SCHEMA, "description": "d"}],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 2},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _SCHEMA}},
        "stop_sequences": ["x"],
        "temperature": 0.5,
    },
}  # fmt: skip
_ANYTHING: list[Any] = [
    None, True, 0, -1, 2**70, 1.5, "", "x", "\ud800", "\x00", [], [[]], {}, {"type": "text"}, {"type": ["text"]},
    ["a", 1], {"a": {"b": []}}, "é" * 300, {"type": "function", "function": {}}, "auto", "user", 10**400,
    {"type": "input_image", "image_url": "data:image/png;base64,AA=="}, {"role": "user", "content": "Hi"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
]  # fmt: skip


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    services = scripted_services(tmp_path_factory.mktemp("mutated"), [([user("Hi")], "Hello there.")])
    with running(create_app(services)) as base:
        yield base


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _places(item, (*path, key))


def _mutated(ask: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    ask = copy.deepcopy(ask)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(list(_places(ask)))
        holder: Any = ask
        for key in path[:-1]:
            holder = holder[key]
        match rng.randrange(4):
            case 0:
                del holder[path[-1]]
            case 1 if isinstance(holder, list):
                holder.append(copy.deepcopy(holder[path[-1]]))
            case _:
                holder[path[-1]] = rng.choice(_ANYTHING)
    return ask


@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/messages", "/v1/responses/input_tokens", "/v1/messages/count_tokens"]
)
def test_nothing_fails_inside(url: str, path: str) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ask = next(known for start, known in _ASKS.items() if path.startswith(start))
    statuses: dict[int, int] = {}
    with httpx.Client(base_url=url, timeout=30) as client:
        for _ in range(120):
            body = _mutated(ask, rng) | {"stream": rng.random() < 0.3}
            answer = client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code in (200, 400, 404), (answer.text, body)
            assert answer.status_code == 200 or len(answer.text) < 2000
            if answer.status_code == 200 and body["stream"] and "tokens" not in path:
                assert b"event: error" not in answer.content, (answer.text, body)
                assert b"response.failed" not in answer.content, (answer.text, body)
            elif answer.status_code != 200:
                assert answer.json()["error"]["message"], body
    print(statuses)
    assert statuses[400] > 10
    assert statuses[200] > 10
