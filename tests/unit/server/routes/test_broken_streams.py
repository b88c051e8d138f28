"""Streams of `/v1/responses` and `/v1/messages` whose engine fails: their clients are told, and the next one is answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from onnxgen.server.app import create_app
from scripted_server import ends, scripted_services
from server_doubles import running
from tool_models import user

_ANSWERS = [([user("Hi")], "Hello there."), ([user("Fail")], "abcdefghijklmnopqrstuvwxyz")]


_FIRST_BYTE = 3
"""Id of the byte 0: special tokens come first."""


def _fails(tokens: Any) -> bool:
    """Whether a step is inside of the answer that fails: after its letter m."""
    return [token - _FIRST_BYTE for token in tokens[-2:]] == [*b"lm"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    services = scripted_services(
        tmp_path_factory.mktemp("broken"),
        _ANSWERS,
        backend={"fail_when": _fails},
        settings={"stream_start_s": 0},
    )
    with running(create_app(services)) as url:
        yield url, services


def test_a_response_ends_as_failed(served: tuple[str, Any]) -> None:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0, timeout=30) as client:
        events = list(client.responses.create(model="tiny", input="Fail", stream=True))
        last: Any = events[-1]
        assert last.type == "response.failed"
        assert last.response.error.code == "server_error"
        assert last.response.output[0].status == "incomplete"
        said = last.response.output[0].content[0].text
        assert said
        assert "abcdefghijklmnopqrstuvwxyz".startswith(said)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(last.response.id)
        assert client.responses.create(model="tiny", input="Hi").output_text == "Hello there."
    ends(served[1])


def test_a_response_that_is_not_streamed_fails_with_a_status(served: tuple[str, Any]) -> None:
    with openai.OpenAI(base_url=f"{served[0]}/v1", api_key="none", max_retries=0, timeout=30) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.responses.create(model="tiny", input="Fail")
        assert caught.value.type == "server_error"


def test_a_message_ends_with_an_error(served: tuple[str, Any]) -> None:
    with anthropic.Anthropic(base_url=served[0], api_key="none", max_retries=0, timeout=30) as client:
        asked: Any = {"model": "tiny", "max_tokens": 99, "messages": [{"role": "user", "content": "Fail"}]}
        told: list[str] = []
        with pytest.raises(anthropic.APIStatusError) as caught, client.messages.stream(**asked) as stream:
            told += stream.text_stream
        body: Any = caught.value.body
        assert body["type"] == "error"
        assert body["error"]["type"] == "api_error"
        asked["messages"][0]["content"] = "Hi"
        assert client.messages.create(**asked).content[0].text == "Hello there."
    ends(served[1])
