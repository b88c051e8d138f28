"""`/v1/messages` through Anthropic's own client, on sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pydantic
import pytest

from onnxgen.server.app import create_app
from scripted_server import TWO_CALLS, after_calls, ends, scripted_services
from server_doubles import running
from tool_models import TOOLS, user

_ANSWERS = [
    ([user("Hi")], "Hello there."),
    ([user("Think")], "<think>Hm.</think>\n\nDone."),
    ([user("City")], '{"city": "Lima"}'),
    ([{"role": "system", "content": "Be kind."}, user("Hi")], "Dear!"),
    ([user("Long")], "abcdefgh" * 40),
]
_WITH_TOOLS = [
    ([user("Both?")], "<think>Two.</think>" + TWO_CALLS),
    (after_calls("Both?", "a", "b"), "Both are sunny."),
    ([user("Say")], "I say."),
]
TOOLS_HERE: Any = [
    {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS
]
_THINKING: Any = {"type": "enabled", "budget_tokens": 1024}


class City(pydantic.BaseModel):
    """What the model is held to."""

    city: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    services = scripted_services(
        tmp_path_factory.mktemp("messages"), _ANSWERS, with_tools=_WITH_TOOLS, settings={"max_tools": 8}
    )
    with running(create_app(services)) as url:
        yield url, services


@pytest.fixture(scope="module")
def client(served: tuple[str, Any]) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served[0], api_key="none", max_retries=0, timeout=30) as made:
        yield made


def _asked(text: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "tiny",
        "max_tokens": 2000,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def _plain(message: Any) -> list[dict[str, Any]]:
    """Blocks without what differs each time."""
    blocks = [block.to_dict() for block in message.content]
    for block in blocks:
        for name in ("id", "parsed_output"):
            block.pop(name, None)
    return blocks


def test_a_text_is_answered(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**_asked("Hi"))
    assert _plain(message) == [{"type": "text", "text": "Hello there."}]
    assert message.stop_reason == "end_turn"
    assert message.usage.output_tokens > 0


@pytest.mark.parametrize(
    "asked",
    [
        _asked("Hi"),
        _asked("Think"),
        _asked("Think", thinking=_THINKING),
        _asked("Think", thinking={"type": "adaptive", "display": "omitted"}),
        _asked("Both?", tools=TOOLS_HERE, thinking=_THINKING),
        _asked("Long", max_tokens=9),
        _asked("Long", stop_sequences=["gha"]),
    ],
    ids=["text", "hidden", "thinking", "omitted", "calls", "cut", "stopped"],
)
def test_the_stream_adds_up_to_the_whole(client: anthropic.Anthropic, asked: dict[str, Any]) -> None:
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        events = list(stream)
        streamed = stream.get_final_message()
    assert _plain(streamed) == _plain(whole)
    assert (streamed.stop_reason, streamed.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    total = whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    assert streamed.usage.input_tokens + (streamed.usage.cache_read_input_tokens or 0) == total
    assert events[0].type == "message_start"
    assert streamed.usage.output_tokens == whole.usage.output_tokens


def test_thoughts_are_shown_to_those_who_ask(client: anthropic.Anthropic) -> None:
    thinking, text = client.messages.create(**_asked("Think", thinking=_THINKING)).content
    assert (thinking.thinking, thinking.signature != "") == ("Hm.", True)
    assert text.text.strip() == "Done."
    (text,) = client.messages.create(**_asked("Think")).content
    assert text.text.strip() == "Done."


def test_a_limit_cuts_the_answer(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**_asked("Long", max_tokens=9))
    assert (message.stop_reason, message.usage.output_tokens) == ("max_tokens", 9)


def test_a_limit_beyond_the_context_is_what_the_context_leaves(client: anthropic.Anthropic) -> None:
    assert client.messages.create(**_asked("Hi", max_tokens=64000)).stop_reason == "end_turn"


def test_a_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**_asked("Long", stop_sequences=["zz", "gha"]))
    assert _plain(message) == [{"type": "text", "text": "abcdef"}]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "gha")


def test_tools_are_used_and_their_results_answered(client: anthropic.Anthropic) -> None:
    asked = _asked("Both?", tools=TOOLS_HERE)
    message = client.messages.create(**asked)
    assert message.stop_reason == "tool_use"
    uses = [block for block in message.content if block.type == "tool_use"]
    assert [use.input for use in uses] == [{"city": "Lima"}, {"city": "Rome"}]
    results = [
        {"type": "tool_result", "tool_use_id": use.id, "content": str(n + 1)} for n, use in enumerate(uses)
    ]
    asked["messages"] += [
        {"role": "assistant", "content": message.content},
        {"role": "user", "content": results},
    ]
    answer = client.messages.create(**asked)
    assert _plain(answer) == [{"type": "text", "text": "Both are sunny."}]


def test_the_loop_of_the_client_sends_everything_where_threads_are_refused(
    client: anthropic.Anthropic,
) -> None:
    results = iter("12")

    @anthropic.beta_tool
    def weather(city: str) -> str:
        """The weather."""
        return next(results)

    @anthropic.beta_tool
    def time() -> str:
        """The time."""
        return "3"

    runner = client.beta.messages.tool_runner(tools=[weather, time], **_asked("Both?"))
    assert [[block.type for block in message.content] for message in runner] == [
        ["tool_use", "tool_use"],
        ["text"],
    ]


def test_threads_are_refused_by_name(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**_asked("Hi"), extra_body={"thread": {"type": "create"}})
    body: Any = caught.value.body
    assert body["error"]["details"] == {"error_code": "thread_unsupported_request"}


def test_no_tool_is_used_where_none_may(client: anthropic.Anthropic) -> None:
    message = client.messages.create(**_asked("Say", tools=TOOLS_HERE, tool_choice={"type": "none"}))
    assert _plain(message) == [{"type": "text", "text": "I say."}]


def test_one_tool_is_used_where_one_must(client: anthropic.Anthropic) -> None:
    choice = {"type": "tool", "name": "time", "disable_parallel_tool_use": True}
    message = client.messages.create(**_asked("Both?", tools=TOOLS_HERE, tool_choice=choice, max_tokens=300))
    names = [block.name for block in message.content if block.type == "tool_use"]
    assert names == ["time"] or message.stop_reason == "max_tokens"


def test_text_is_held_to_a_schema(client: anthropic.Anthropic) -> None:
    message = client.messages.parse(**_asked("City"), output_format=City)
    assert message.parsed_output == City(city="Lima")


def test_a_system_prompt_goes_in_front(client: anthropic.Anthropic) -> None:
    for system in (
        "Be kind.",
        [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
    ):
        assert client.messages.create(**_asked("Hi", system=system)).content[0].text == "Dear!"


def test_an_answer_that_was_begun_goes_on(client: anthropic.Anthropic) -> None:
    asked = _asked("Hi")
    asked["messages"].append({"role": "assistant", "content": "Hello"})
    assert client.messages.create(**asked).content[0].text == " there."


def test_prompts_that_were_seen_are_cached(client: anthropic.Anthropic) -> None:
    asked = _asked("Hi " * 100, max_tokens=1)
    first, second = (client.messages.create(**asked).usage for _ in range(2))
    assert second.cache_read_input_tokens > 100 > first.cache_read_input_tokens
    assert second.cache_read_input_tokens > second.input_tokens
    totals = [usage.input_tokens + usage.cache_read_input_tokens for usage in (first, second)]
    assert totals[0] == totals[1]


def test_tokens_are_counted(client: anthropic.Anthropic) -> None:
    asked = _asked("Count these", system="Be kind.", tools=TOOLS_HERE, max_tokens=1)
    used = client.messages.create(**asked).usage
    del asked["max_tokens"]
    counted = client.messages.count_tokens(**asked).input_tokens
    assert counted == used.input_tokens + used.cache_read_input_tokens


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": "?"}] * 5000},
        {"messages": [{"role": "alien", "content": "?"}]},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/"}}]}]},
        {"max_tokens": 0},
        {"max_tokens": None},
        {"temperature": -1},
        {"thinking": {"type": "enabled", "budget_tokens": 5000}},
        {"thinking": {"type": "sometimes"}},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"tools": TOOLS_HERE * 5},
        {"tool_choice": {"type": "any"}},
        {"container": "c"},
        {"mcp_servers": [{}]},
        {"output_config": {"format": {"type": "regex"}}},
        {"messages": [{"role": "user", "content": "x" * 9000}]},
        {"n": 2},
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_in_the_form_of_the_api(
    client: anthropic.Anthropic, change: dict[str, Any]
) -> None:
    for stream in (False, True):
        with pytest.raises(anthropic.BadRequestError) as caught:
            client.post("/v1/messages", body={**_asked("Hi"), "stream": stream, **change}, cast_to=object)
        body: Any = caught.value.body
        assert body["type"] == "error"
        assert body["error"]["type"] == "invalid_request_error"
        assert len(body["error"]["message"]) < 500


def test_an_unknown_model_is_not_found(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**{**_asked("Hi"), "model": "other"})


def test_a_client_that_leaves_ends_its_message(served: tuple[str, Any], client: anthropic.Anthropic) -> None:
    with client.messages.stream(**_asked("endless", max_tokens=4000)) as stream:
        next(iter(stream.text_stream))
    ends(served[1])
    assert client.messages.create(**_asked("Hi")).content[0].text == "Hello there."


def test_events_are_named_and_nothing_follows_the_last(served: tuple[str, Any]) -> None:
    answer = httpx.post(f"{served[0]}/v1/messages?beta=true", json=_asked("Hi", stream=True))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    begun = json.loads(answer.text.split("\n")[1].removeprefix("data: "))
    ended = json.loads(answer.text.strip().split("\n")[-4].removeprefix("data: "))
    cached = ended["usage"]["cache_read_input_tokens"]
    assert begun["message"]["usage"]["input_tokens"] == ended["usage"]["input_tokens"] + cached
    lines = answer.text.strip().split("\n")
    assert lines[-2] == "event: message_stop"
    assert lines[-1] == 'data: {"type":"message_stop"}'
