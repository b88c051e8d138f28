"""`/v1/responses` through OpenAI's own client, on sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pydantic
import pytest

from onnxgen.server.app import create_app
from scripted_server import TWO_CALLS, after_calls, ends, scripted_services
from server_doubles import running
from tool_models import TOOLS, user

_TALK = [user("Hi"), {"role": "assistant", "content": "Hello there."}, user("And?")]
_ANSWERS = [
    ([user("Hi")], "Hello there."),
    ([user("Think")], "<think>Hm.</think>\n\nDone."),
    ([user("City")], '{"city": "Lima"}'),
    (_TALK, "That is all."),
    ([{"role": "system", "content": "Be kind."}, user("Hi")], "Dear!"),
    ([{"role": "system", "content": "Be kind.\n\nBe brief."}, user("Hi")], "D!"),
    ([user("Long")], "abcdefgh" * 40),
]
_WITH_TOOLS = [
    ([user("Both?")], "<think>Two.</think>" + TWO_CALLS),
    (after_calls("Both?", "a", "b"), "Both are sunny."),
    ([user("Say")], "I say."),
]
TOOLS_HERE: Any = [{"type": "function", **tool["function"], "strict": None} for tool in TOOLS]


class City(pydantic.BaseModel):
    """What the model is held to."""

    city: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    services = scripted_services(
        tmp_path_factory.mktemp("responses"), _ANSWERS, with_tools=_WITH_TOOLS, settings={"max_tools": 8}
    )
    with running(create_app(services)) as url:
        yield url, services


@pytest.fixture(scope="module")
def client(served: tuple[str, Any]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0, timeout=30) as made:
        yield made


def _streamed(client: openai.OpenAI, **asked: Any) -> tuple[list[Any], Any]:
    with client.responses.stream(model="tiny", **asked) as stream:
        events = list(stream)
    return events, events[-1].response


def _plain(response: Any) -> list[dict[str, Any]]:
    """Items without what differs each time."""
    items = [item.to_dict() for item in response.output]
    for item in items:
        for each in (item, *item.get("content", ())):
            for name in ("id", "call_id", "parsed", "parsed_arguments"):
                each.pop(name, None)
    return items


def test_a_text_is_answered(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Hi")
    assert (response.output_text, response.status) == ("Hello there.", "completed")
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.output_tokens > 0


@pytest.mark.parametrize(
    "asked",
    [
        {"input": "Hi"},
        {"input": "Think"},
        {"input": "Both?", "tools": TOOLS_HERE},
        {"input": "Long", "max_output_tokens": 9},
    ],
    ids=["text", "reasoning", "calls", "cut"],
)
def test_the_stream_adds_up_to_the_whole(client: openai.OpenAI, asked: dict[str, Any]) -> None:
    whole = client.responses.create(model="tiny", **asked)
    events, streamed = _streamed(client, **asked)
    assert _plain(streamed) == _plain(whole)
    assert streamed.status == whole.status
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == f"response.{whole.status}"
    told = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert told == whole.output_text


def test_reasoning_is_an_item_of_its_own(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Think")
    reasoning, message = response.output
    assert reasoning.content[0].text == "Hm."
    assert message.content[0].text.strip() == "Done."
    assert response.usage.output_tokens_details.reasoning_tokens > 0


def test_a_limit_cuts_the_answer(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Long", max_output_tokens=9)
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == 9


def test_a_limit_beyond_the_context_is_what_the_context_leaves(client: openai.OpenAI) -> None:
    assert client.responses.create(model="tiny", input="Hi", max_output_tokens=10**6).status == "completed"


def test_tools_are_called_and_their_results_answered(client: openai.OpenAI) -> None:
    items: list[Any] = [{"role": "user", "content": "Both?"}]
    response = client.responses.create(model="tiny", input=items, tools=TOOLS_HERE)
    calls = [item for item in response.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"city": "Lima"}', '{"city": "Rome"}']
    items += [item.to_dict() for item in response.output]
    items += [
        {"type": "function_call_output", "call_id": call.call_id, "output": str(n + 1)}
        for n, call in enumerate(calls)
    ]
    assert (
        client.responses.create(model="tiny", input=items, tools=TOOLS_HERE).output_text == "Both are sunny."
    )


def test_results_alone_go_on_from_a_response_that_is_kept(client: openai.OpenAI) -> None:
    _, response = _streamed(client, input="Both?", tools=TOOLS_HERE)
    calls = [item for item in response.output if item.type == "function_call"]
    results: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": str(n + 1)}
        for n, call in enumerate(calls)
    ]
    answer = client.responses.create(
        model="tiny", input=results, previous_response_id=response.id, tools=TOOLS_HERE
    )
    assert answer.output_text == "Both are sunny."
    assert answer.previous_response_id == response.id


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "name": "weather"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "time"}]},
    ],
    ids=["required", "named", "allowed"],
)
def test_a_choice_of_tools_is_held_to(client: openai.OpenAI, choice: Any) -> None:
    response = client.responses.create(
        model="tiny",
        input="Both?",
        tools=TOOLS_HERE,
        tool_choice=choice,
        parallel_tool_calls=False,
        max_output_tokens=200,
    )
    calls = [item for item in response.output if item.type == "function_call"]
    names = {"weather", "time"} if choice == "required" else {choice.get("name", "time")}
    assert response.status == "incomplete" or {call.name for call in calls} <= names
    assert response.status == "incomplete" or len(calls) == 1


def test_no_tool_is_called_where_none_may(client: openai.OpenAI) -> None:
    response = client.responses.create(model="tiny", input="Say", tools=TOOLS_HERE, tool_choice="none")
    assert response.output_text == "I say."


def test_text_is_held_to_a_schema(client: openai.OpenAI) -> None:
    response = client.responses.parse(model="tiny", input="City", text_format=City)
    assert response.output_parsed == City(city="Lima")
    with client.responses.stream(model="tiny", input="City", text_format=City) as stream:
        assert stream.get_final_response().output_parsed == City(city="Lima")


def test_conversations_go_on_from_what_is_kept(client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="Hi", instructions=None)
    second = client.responses.create(model="tiny", input="And?", previous_response_id=first.id)
    assert second.output_text == "That is all."
    listed = client.responses.input_items.list(second.id, order="asc").data
    assert [item.type for item in listed] == ["message"] * 3
    assert [item.role for item in listed] == ["user", "assistant", "user"]


def test_instructions_are_for_one_response(client: openai.OpenAI) -> None:
    first = client.responses.create(model="tiny", input="Hi", instructions="Be kind.")
    assert first.output_text == "Dear!"
    listed = client.responses.input_items.list(first.id).data
    assert [item.role for item in listed] == ["user"]


def test_two_system_texts_are_one(client: openai.OpenAI) -> None:
    items: Any = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert client.responses.create(model="tiny", input=items, instructions="Be kind.").output_text == "D!"


def test_a_response_is_read_and_forgotten(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Hi", metadata={"a": "b"})
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_what_is_kept_is_neither_cancelled_nor_streamed_again(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Hi")
    with pytest.raises(openai.BadRequestError, match="has ended"):
        client.responses.cancel(made.id)
    with pytest.raises(openai.BadRequestError, match="streamed once"):
        client.responses.retrieve(made.id, stream=True)


def test_pages_of_items_follow_each_other(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": str(n)} for n in range(7)]
    made = client.responses.create(model="tiny", input=items, max_output_tokens=1)
    pages = list(client.responses.input_items.list(made.id, order="desc", limit=3))
    assert [item.content[0].text for item in pages] == [str(n) for n in reversed(range(7))]


def test_what_is_not_to_be_stored_is_not_kept(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Hi", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="tiny", input="And?", previous_response_id=made.id)


def test_log_probabilities(client: openai.OpenAI) -> None:
    include: Any = ["message.output_text.logprobs"]
    made = client.responses.create(model="tiny", input="Think", top_logprobs=2, include=include)
    told = made.output[-1].content[0].logprobs
    assert "".join(entry.token for entry in told).strip() == "Done."
    assert all(len(entry.top_logprobs) == 2 for entry in told)
    events, streamed = _streamed(client, input="Think", top_logprobs=2)
    assert streamed.output[-1].content[0].logprobs == told
    deltas = [entry for e in events if e.type == "response.output_text.delta" for entry in e.logprobs]
    assert [entry.token for entry in deltas] == [entry.token for entry in told]


def test_tokens_are_counted(client: openai.OpenAI) -> None:
    made = client.responses.create(model="tiny", input="Both?", tools=TOOLS_HERE)
    counted = client.responses.input_tokens.count(model="tiny", input="Both?", tools=TOOLS_HERE)
    assert counted.input_tokens == made.usage.input_tokens


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": "?"}] * 5000}, "input"),
        ({"input": "Hi", "background": True}, "background"),
        ({"input": "Hi", "conversation": "conv_1"}, "conversation"),
        ({"input": "Hi", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": "Hi", "tools": TOOLS_HERE * 5}, "tools"),
        ({"input": "Hi", "tool_choice": "required"}, None),
        ({"input": "Hi", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "Hi", "temperature": -1}, "temperature"),
        ({"input": "Hi", "top_logprobs": 99}, "top_logprobs"),
        ({"input": "Hi", "text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"input": "Hi", "metadata": {"a": 1}}, "metadata.a"),
        ({"input": "Hi", "n": 2}, "n"),
        (
            {
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}
                ]
            },
            None,
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_its_field(
    client: openai.OpenAI, asked: dict[str, Any], param: str | None
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            client.post("/responses", body={"model": "tiny", "stream": stream, **asked}, cast_to=object)
        if param is not None:
            assert caught.value.param == param


def test_text_that_is_none_is_refused(served: tuple[str, Any]) -> None:
    for field in (
        '"instructions": "\\ud800"',
        '"tools": [{"type": "function", "name": "f", "x": "\\ud800"}]',
    ):
        body = '{"model": "tiny", "input": "Hi", ' + field + "}"
        answer = httpx.post(
            f"{served[0]}/v1/responses", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 400


def test_unknown_responses_and_models_are_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.responses.create(model="other", input="Hi")
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="tiny", input="Hi", previous_response_id="resp_0")
    assert caught.value.param == "previous_response_id"


def test_a_conversation_that_is_too_long_is_refused_or_shortened(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": f"{n} {'x' * 600}"} for n in range(9)]
    items.append({"role": "user", "content": "Hi"})
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="tiny", input=items)
    assert caught.value.code == "context_length_exceeded"
    made = client.responses.create(model="tiny", input=items, truncation="auto", max_output_tokens=1)
    assert made.usage.input_tokens < 4096
    assert made.truncation == "auto"


def test_a_client_that_leaves_ends_its_response(served: tuple[str, Any], client: openai.OpenAI) -> None:
    _, services = served
    stream = client.responses.create(model="tiny", input="endless", stream=True)
    for event in stream:
        if event.type == "response.output_text.delta":
            break
    stream.close()
    ends(services)
    assert client.responses.create(model="tiny", input="Hi").output_text == "Hello there."
