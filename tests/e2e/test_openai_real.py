"""OpenAI's client on a real model, whose engine is in a process of its own: chat, schemas, tools, log probabilities."""

import json
import time
from typing import Literal

import openai
import pydantic
import pytest

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.server.app import create_app
from onnxgen.server.models import ModelEntry
from onnxgen.server.observe.observer import Observer
from onnxgen.server.protection import protect
from onnxgen.server.services import Services
from onnxgen.server.sessions.store import SessionStore
from onnxgen.server.settings import ServerSettings
from real_models import checkpoint_file
from server_doubles import running, table_of

pytestmark = [pytest.mark.network, pytest.mark.timeout(600)]

WAIT_S = 120
QUESTION = [{"role": "user", "content": "Name the capital of France, and say one thing about it."}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"enum": [1, 2, 3]}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    }
]


class City(pydantic.BaseModel):
    name: Literal["Paris", "Rome", "Berlin"]
    is_capital: bool


@pytest.fixture(scope="module")
def llm():
    checkpoint_file("smollm2", fetch=False)
    llm = AsyncLLM("smollm2", in_process=False)
    yield llm
    llm.close()


@pytest.fixture(scope="module")
def client(llm):
    services = Services(
        settings=ServerSettings(),
        models=table_of(llm, ModelEntry("smollm2", "smollm2", tool_call_format="hermes")),
        observer=Observer(statistics_s=0),
        sessions=SessionStore(),
    )
    with (
        running(protect(create_app(services), services)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=WAIT_S) as client,
    ):
        yield client


def test_an_answer_says_what_its_tokens_say(client):
    done = client.chat.completions.create(
        model="smollm2", messages=QUESTION, max_tokens=32, temperature=0, logprobs=True, top_logprobs=3
    )
    choice = done.choices[0]
    assert "Paris" in choice.message.content
    said = b"".join(bytes(token.bytes) for token in choice.logprobs.content)
    assert said.decode() == choice.message.content
    assert len(choice.logprobs.content) == done.usage.completion_tokens
    for token in choice.logprobs.content:
        assert token.logprob == max(top.logprob for top in token.top_logprobs)


def test_a_stream_comes_to_what_its_tokens_say(client):
    chunks = list(
        client.chat.completions.create(
            model="smollm2",
            messages=QUESTION,
            max_tokens=32,
            temperature=0,
            logprobs=True,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    choices = [chunk.choices[0] for chunk in chunks[:-1]]
    content = "".join(choice.delta.content or "" for choice in choices)
    tokens = [token for choice in choices if choice.logprobs for token in choice.logprobs.content]
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == content
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["length"]
    assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], len(tokens))


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_is_parsed_into_the_class_that_was_asked_for(client, stream):
    asked = {"model": "smollm2", "messages": QUESTION, "response_format": City, "max_tokens": 64}
    if stream:
        with client.chat.completions.stream(**asked) as events:
            done = events.get_final_completion()
    else:
        done = client.chat.completions.parse(**asked)
    assert isinstance(done.choices[0].message.parsed, City)


def test_a_tool_that_must_be_called_is_called_as_its_schema_says(client):
    messages = [{"role": "user", "content": "How is the weather in Rome for the next 2 days?"}]
    asked = {"model": "smollm2", "tools": TOOLS, "max_tokens": 128, "temperature": 0}
    done = client.chat.completions.create(messages=messages, tool_choice="required", **asked).choices[0]
    assert done.finish_reason == "tool_calls"
    call = done.message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather"
    assert arguments["city"] in ("Paris", "Rome")
    assert arguments["days"] in (1, 2, 3)
    messages += [done.message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 25 degrees."}]
    after = client.chat.completions.create(messages=messages, tool_choice="none", **asked).choices[0]
    assert after.message.content
    assert after.message.tool_calls is None


def test_several_answers_differ_and_can_be_had_again(client):
    asked = {"model": "smollm2", "messages": QUESTION, "n": 3, "max_tokens": 16, "temperature": 1.5}
    texts = [
        [choice.message.content for choice in client.chat.completions.create(seed=11, **asked).choices]
        for _ in range(2)
    ]
    assert len(set(texts[0])) == 3
    assert texts[0] == texts[1]


def test_closing_a_stream_ends_it_in_the_engine(client, llm):
    stream = client.chat.completions.create(
        model="smollm2", messages=QUESTION, stream=True, max_tokens=1500, extra_body={"ignore_eos": True}
    )
    for _, _ in zip(range(4), stream, strict=False):
        pass
    assert llm.num_pending == 1
    stream.close()
    end = time.monotonic() + WAIT_S
    while llm.num_pending:
        assert time.monotonic() < end, "it goes on"
        time.sleep(0.01)
