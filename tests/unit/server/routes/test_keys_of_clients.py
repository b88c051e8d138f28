"""Both clients carry their keys in their own ways, and see nothing of each other's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from onnxgen.server.app import create_app
from onnxgen.server.protection import protect
from scripted_server import scripted_services
from server_doubles import running
from tool_models import user


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    keys = ("alice=" + "a" * 32, "bob=" + "b" * 32)
    services = scripted_services(tmp_path, [([user("Hi")], "Hello there.")], settings={"api_key": keys})
    with running(protect(create_app(services), services)) as base:
        yield base


def test_keys_are_taken_from_both_headers_and_tell_tenants_apart(url: str) -> None:
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="a" * 32, max_retries=0) as alice,
        openai.OpenAI(base_url=f"{url}/v1", api_key="b" * 32, max_retries=0) as bob,
    ):
        made = alice.responses.create(model="tiny", input="Hi")
        assert alice.responses.retrieve(made.id).output_text == "Hello there."
        item: Any = {"type": "item_reference", "id": made.output[0].id}
        again: Any = [{"role": "user", "content": "Hi"}]
        assert alice.responses.create(model="tiny", input=[item, *again], max_output_tokens=1).output
        for refused in (
            lambda: bob.responses.retrieve(made.id),
            lambda: bob.responses.delete(made.id),
            lambda: bob.responses.input_items.list(made.id),
            lambda: bob.responses.create(model="tiny", input="Hi", previous_response_id=made.id),
            lambda: bob.responses.create(model="tiny", input=[item, *again]),
        ):
            with pytest.raises(openai.NotFoundError):
                refused()
    asked: Any = {"model": "tiny", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
    with anthropic.Anthropic(base_url=url, api_key="a" * 32, max_retries=0) as claude:
        assert claude.messages.create(**asked).content[0].text == "Hello there."
    with anthropic.Anthropic(base_url=url, api_key="c" * 32, max_retries=0) as stranger:
        with pytest.raises(anthropic.AuthenticationError) as caught:
            stranger.messages.create(**asked)
        body: Any = caught.value.body
        assert body["error"]["type"] == "authentication_error"
        assert body["request_id"]
        assert "c" * 32 not in str(body)
