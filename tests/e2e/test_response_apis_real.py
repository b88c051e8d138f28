"""OpenAI's and Anthropic's clients with a real model in an engine process of its own: streams in a crowd, tools, schemas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pydantic
import pytest

from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.server.app import create_app
from onnxgen.server.settings import ServerSettings
from onnxgen.server.startup import open_services
from real_models import checkpoint_file
from scripted_server import ends
from server_doubles import running

_GREEDY = {"temperature": 0}
_SCHEMA: Any = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Lima", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


class Capital(pydantic.BaseModel):
    """What the model is held to."""

    name: str = pydantic.Field(max_length=20)
    is_capital: bool


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, Any]]:
    checkpoint_file("smollm2", fetch=True)
    settings = ServerSettings(model="smollm2", warm_up=False, tool_call_format="hermes", strict=True)
    services = open_services(settings, load_runtime_config().config)
    with running(create_app(services)) as url:
        yield url, services


@pytest.fixture(scope="module")
def oai(served: tuple[str, Any]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=3, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def claude(served: tuple[str, Any]) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served[0], api_key="none", max_retries=3, timeout=120) as client:
        yield client


def _question(number: int) -> str:
    return f"Count from {number} upwards."


def test_conversations_go_on(oai: openai.OpenAI) -> None:
    first = oai.responses.create(model="smollm2", input="What is the capital of France?", temperature=0)
    second = oai.responses.create(
        model="smollm2", input="And of Italy?", previous_response_id=first.id, temperature=0
    )
    assert "Paris" in first.output_text
    assert "Rome" in second.output_text
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens > 0


def test_streams_in_a_crowd_are_the_answers_alone(
    served: tuple[str, Any], oai: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    alone = [
        oai.responses.create(
            model="smollm2", input=_question(n), temperature=0, max_output_tokens=24
        ).output_text
        for n in range(4)
    ]

    async def response(client: openai.AsyncOpenAI, number: int) -> str:
        text = ""
        async with client.responses.stream(
            model="smollm2", input=_question(number), temperature=0, max_output_tokens=24
        ) as stream:
            async for event in stream:
                text += event.delta if event.type == "response.output_text.delta" else ""
        return text

    async def message(client: anthropic.AsyncAnthropic, number: int) -> str:
        async with client.messages.stream(
            model="smollm2",
            max_tokens=24,
            messages=[{"role": "user", "content": _question(number)}],
            extra_body=_GREEDY,
        ) as stream:
            return "".join([text async for text in stream.text_stream])

    async def crowd() -> list[str]:
        async with (
            openai.AsyncOpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0) as first,
            anthropic.AsyncAnthropic(base_url=served[0], api_key="none", max_retries=0) as second,
        ):
            asked = [ask for n in range(4) for ask in (response(first, n), message(second, n))]
            return await asyncio.gather(*asked)

    assert asyncio.run(crowd()) == [text for text in alone for _ in range(2)]
    ends(served[1])


def test_schemas_are_held_to(oai: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    question = "Tell of Paris as JSON with name and is_capital."
    parsed = oai.responses.parse(
        model="smollm2", input=question, text_format=Capital, temperature=0, max_output_tokens=60
    )
    message = claude.messages.parse(
        model="smollm2",
        max_tokens=60,
        messages=[{"role": "user", "content": question}],
        output_format=Capital,
        extra_body=_GREEDY,
    )
    assert isinstance(parsed.output_parsed, Capital)
    assert message.parsed_output == parsed.output_parsed


def test_tools_are_called_and_answered(oai: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    question = "What is the weather in Lima?"
    tools: Any = [{"type": "function", "name": "weather", "parameters": _SCHEMA, "strict": True}]
    called = oai.responses.create(
        model="smollm2", input=question, tools=tools, tool_choice="required", parallel_tool_calls=False, temperature=0
    )  # fmt: skip
    (call,) = (item for item in called.output if item.type == "function_call")
    assert json.loads(call.arguments)["city"] in ("Lima", "Rome")
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    answered = oai.responses.create(
        model="smollm2", input=[output], previous_response_id=called.id, tools=tools, tool_choice="none",
        temperature=0, max_output_tokens=40,
    )  # fmt: skip
    assert answered.output_text

    asked: dict[str, Any] = {
        "model": "smollm2",
        "max_tokens": 60,
        "messages": [{"role": "user", "content": question}],
        "tools": [{"name": "weather", "input_schema": _SCHEMA, "strict": True}],
        "extra_body": _GREEDY,
    }
    used = claude.messages.create(**asked, tool_choice={"type": "any", "disable_parallel_tool_use": True})
    (use,) = (block for block in used.content if block.type == "tool_use")
    assert use.input == json.loads(call.arguments)
    asked["messages"] += [
        {"role": "assistant", "content": used.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny"}]},
    ]
    message = claude.messages.create(**asked, tool_choice={"type": "none"})
    assert message.content[0].text


def test_clients_that_leave_end_their_answers(
    served: tuple[str, Any], oai: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    stream = oai.responses.create(model="smollm2", input="Write a long story.", stream=True)
    next(event for event in stream if event.type == "response.output_text.delta")
    stream.close()
    with claude.messages.stream(
        model="smollm2", max_tokens=4000, messages=[{"role": "user", "content": "Write a long story."}]
    ) as messages:
        next(iter(messages.text_stream))
    with pytest.raises(openai.APITimeoutError):
        oai.with_options(timeout=1.5, max_retries=0).responses.create(
            model="smollm2", input="Write a very long story.", extra_body={"ignore_eos": True}
        )
    ends(served[1])
