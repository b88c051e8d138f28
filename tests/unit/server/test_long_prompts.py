"""Prompts that are far too long are refused on every path before much is done with them."""

import asyncio

import pytest

from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.server.generation import ask, completion_ask
from onnxgen.server.routes import tokens
from server_doubles import client, server

LONG = "é " * 400_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}),
        ("/v1/completions", {"prompt": LONG}),
        ("/v1/completions", {"prompt": ["x", LONG]}),
        ("/v1/completions", {"prompt": LONG, "truncate_prompt_tokens": 5}),
        ("/v1/responses", {"input": LONG}),
        ("/v1/responses/input_tokens", {"input": LONG}),
        ("/v1/responses", {"input": LONG, "truncation": "auto"}),
        ("/v1/messages", {"messages": [{"role": "user", "content": LONG}], "max_tokens": 5}),
        ("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": LONG}]}),
        ("/tokenize", {"prompt": LONG}),
        ("/tokenize", {"messages": [{"role": "user", "content": LONG}]}),
        ("/apply-template", {"messages": [{"role": "user", "content": LONG}]}),
    ],
)
def test_texts_that_are_far_too_long_take_no_memory_for_their_tokens(tmp_path, monkeypatch, path, body):
    for module in (completion_ask, tokens, ask):
        monkeypatch.setattr(module, "MAX_COUNTED_TOKENS", 2000)
    shown, encode = [], Tokenizer.encode_batch

    def counting(self, texts, **options):
        shown.extend(map(len, texts))
        return encode(self, texts, **options)

    async def posted():
        async with client(server(tmp_path)) as c:
            monkeypatch.setattr(Tokenizer, "encode_batch", counting)
            return await c.post(path, json=body)

    answer = asyncio.run(posted())
    assert answer.status_code == 400
    assert "shorten the prompt" in answer.json()["error"]["message"]
    assert sum(shown) < len(LONG) / 4
