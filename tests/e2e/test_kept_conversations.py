"""Conversations that the server keeps, over a real socket: chat goes on with one that a header names."""

import json
import time

import httpx
import pytest

import server_doubles
from onnxgen.server.app import create_app
from onnxgen.server.protection import protect


@pytest.fixture
def served(tmp_path):
    services = server_doubles.fake_services(tmp_path)
    with (
        server_doubles.running(create_app(services)) as base,
        httpx.Client(base_url=base, timeout=30, trust_env=False) as client,
    ):
        yield client, services


def say(client, session, *messages, **fields):
    body = {"model": "tiny", "max_tokens": 5, "messages": list(messages), **fields}
    return client.post("/v1/chat/completions", json=body, headers={"X-Session-Id": session})


def user(text):
    return {"role": "user", "content": text}


def test_only_what_is_new_is_sent_and_the_answer_is_that_to_the_whole(served):
    client, _ = served
    made = client.post("/v1/sessions").json()
    first = say(client, made["id"], user("Good morning!"), ignore_eos=True).json()
    answer = first["choices"][0]["message"]["content"]
    assert first["session_id"] == made["id"]
    assert first["session_token_count"] == first["usage"]["total_tokens"]
    second = say(client, made["id"], user("And now?"), ignore_eos=True).json()
    whole = [user("Good morning!"), {"role": "assistant", "content": answer}, user("And now?")]
    alone = {"model": "tiny", "max_tokens": 5, "messages": whole, "ignore_eos": True}
    asked = client.post("/v1/chat/completions", json=alone).json()
    assert second["choices"] == asked["choices"]
    assert second["usage"]["prompt_tokens"] == asked["usage"]["prompt_tokens"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    kept = client.get(f"/v1/sessions/{made['id']}").json()
    assert kept["messages"][:3] == whole
    assert (kept["turns"], kept["message_count"]) == (2, 4)
    assert kept["token_count"] == second["session_token_count"]


def test_a_client_that_sends_everything_has_the_same_conversation(served):
    client, _ = served
    messages = []
    for text in ("one", "two", "three"):
        messages.append(user(text))
        answer = say(client, "all-of-it", *messages)
        messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})
    assert client.get("/v1/sessions/all-of-it").json()["messages"] == messages


def test_a_stream_is_kept_when_it_ends_and_when_its_client_leaves(served):
    client, services = served
    body = {"model": "tiny", "stream": True, "messages": [user("stream")], "max_tokens": 4}
    headers = {"X-Session-Id": "streamed"}
    with client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        events = [line[6:] for line in answer.iter_lines() if line.startswith("data: {")]
    assert json.loads(events[-1])["session_id"] == "streamed"
    assert client.get("/v1/sessions/streamed").json()["turns"] == 1

    left = {**body, "messages": [user("endless")], "max_tokens": 900, "ignore_eos": True}
    with client.stream("POST", "/v1/chat/completions", json=left, headers=headers) as answer:
        lines = answer.iter_lines()
        for line in lines:
            if '"content":"' in line:
                break
        busy = say(client, "streamed", user("at the same time"))
    assert busy.status_code == 409
    assert busy.json()["error"]["code"] == "session_busy"
    deadline = time.monotonic() + 20
    while services.sessions.find("streamed", "").in_use:
        assert time.monotonic() < deadline, "the session is still in use"
        time.sleep(0.01)
    kept = client.get("/v1/sessions/streamed").json()["messages"]
    assert [m["role"] for m in kept] == ["user", "assistant", "user", "assistant"]
    assert kept[2] == user("endless")
    assert kept[3]["content"]


def test_a_turn_that_is_refused_leaves_the_conversation_as_it_was(served):
    client, _ = served
    assert say(client, "kept", user("one")).status_code == 200
    before = client.get("/v1/sessions/kept").json()["messages"]
    refused = say(client, "kept", user("long " * 2000))
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")
    after = client.get("/v1/sessions/kept").json()
    assert after["messages"] == before
    assert not after["in_use"]


@pytest.mark.parametrize("bad", ["x" * 129, "with space"])
def test_an_id_that_cannot_be_one_is_refused(served, bad):
    client, _ = served
    answer = say(client, bad, user("one"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_session_id")
    assert client.get("/v1/sessions").json()["data"] == []


def test_keys_have_conversations_of_their_own(tmp_path):
    keys = ("ann=first-long-key", "bob=second-long-key")
    services = server_doubles.fake_services(tmp_path, settings={"api_key": keys})
    with server_doubles.running(protect(create_app(services), services)) as base:
        ann, bob = (
            httpx.Client(
                base_url=base, timeout=30, trust_env=False, headers={"Authorization": f"Bearer {key[4:]}"}
            )
            for key in keys
        )
        with ann, bob:
            assert say(ann, "shared-name", user("my secret")).status_code == 200
            assert say(bob, "shared-name", user("hello")).json()["session_id"] == "shared-name"
            assert bob.get("/v1/sessions/shared-name").json()["messages"][0] == user("hello")
            made = ann.post("/v1/sessions").json()["id"]
            assert bob.delete(f"/v1/sessions/{made}").status_code == 404
            assert [s["id"] for s in bob.get("/v1/sessions").json()["data"]] == ["shared-name"]
            assert ann.get(f"/v1/sessions/{made}").status_code == 200
