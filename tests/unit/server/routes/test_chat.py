"""`/v1/chat/completions` over real sockets and with OpenAI's client, on a scripted model."""

import contextlib
import json
import socket
import time

import httpx
import openai
import pydantic
import pytest

from chat_server import WAIT_S, ChatServer, accumulated, events_of
from onnxgen.engine.config import EngineConfig
from onnxgen.scheduler.config import SchedulerConfig
from server_doubles import running
from tool_models import TOOLS, call_text, calling, user

HI = [user("hi")]
LONG = {"model": "tiny", "messages": HI, "ignore_eos": True, "max_tokens": 4000}


@contextlib.contextmanager
def serving(folder, answers=(), **options):
    server = ChatServer(folder, answers, **options)
    with running(server.app) as url, httpx.Client(base_url=url, timeout=WAIT_S) as client:
        server.url, server.http = url, client
        server.openai = openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=WAIT_S)
        try:
            yield server
            server.wait_until_idle()
        finally:
            server.backend.gate.set()


def ask(server, *, stream=False, **asked):
    body = {"model": "tiny", "messages": HI, "stream": stream, **asked}
    return server.http.post("/v1/chat/completions", json=body)


def both(server, **asked):
    """The answer as it is given whole, after a look at whether the stream comes to it."""
    whole = ask(server, **asked)
    assert whole.status_code == 200, whole.text
    streamed = ask(server, stream=True, **asked)
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    choices = accumulated(events_of(streamed.text), n=asked.get("n", 1))
    for choice in [*choices, *whole.json()["choices"]]:
        for call in choice["message"].get("tool_calls", []):
            assert call.pop("id")
    body = whole.json()
    for choice in body["choices"]:
        for call in choice["message"].get("tool_calls", []):
            call.pop("id")
    assert choices == body["choices"]
    return body


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thinking")
    with serving(folder, [(HI, "<think>hm</think>Hello world, the end.")]) as server:
        yield server


@pytest.fixture(scope="module")
def greeting(tmp_path_factory):
    folder = tmp_path_factory.mktemp("greeting")
    with serving(folder, [(HI, "hello")], max_tools=3, stream_start_s=WAIT_S) as server:
        yield server


def test_an_answer_has_all_its_parts(tmp_path):
    with serving(tmp_path, [(HI, "<think>hm</think>Hello.")]) as server:
        body = both(server)
        again = ask(server).json()
    created, fingerprint = again["created"], again["system_fingerprint"]
    assert again["id"].startswith("chatcmpl-")
    assert again["id"] != body["id"]
    assert abs(created - time.time()) < WAIT_S
    assert fingerprint == body["system_fingerprint"]
    usage = again["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert again["timings"]["predicted_n"] == usage["completion_tokens"]
    assert (again["object"], again["model"]) == ("chat.completion", "tiny")
    assert again["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello.",
                "refusal": None,
                "reasoning_content": "hm",
                "reasoning": "hm",
            },
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]


@pytest.mark.parametrize(
    "asked",
    [
        {"n": 3, "temperature": 1.5, "seed": 7, "ignore_eos": True, "max_tokens": 9},
        {"logprobs": True, "top_logprobs": 2},
        {"logprobs": True, "n": 2, "stop": ["wor"]},
        {"stop": "lo w"},
        {"max_tokens": 1},
        {"max_completion_tokens": 3, "max_tokens": 100},
        {"include_reasoning": False},
        {"deadline_s": 0.0},
        {"chat_template_kwargs": {"x": 1}, "reasoning_effort": "low", "user": "u", "metadata": {"a": "b"}},
    ],
)
def test_a_stream_comes_to_the_answer_that_is_given_whole(thinking, asked):
    body = both(thinking, **asked)
    assert len(body["choices"]) == asked.get("n", 1)


@pytest.mark.parametrize(
    ("asked", "finish", "stop"),
    [
        ({}, "stop", None),
        ({"max_tokens": 2}, "length", None),
        ({"max_tokens": 5}, "stop", None),
        ({"stop": ["lo"]}, "stop", "lo"),
        ({"stop_token_ids": [3 + 256 + 11]}, "stop", 270),
        ({"deadline_s": 0}, "length", None),
    ],
)
def test_why_an_answer_ended_is_told(greeting, asked, finish, stop):
    choice = both(greeting, **asked)["choices"][0]
    assert (choice["finish_reason"], choice["stop_reason"]) == (finish, stop)


def test_an_answer_may_be_empty(tmp_path):
    with serving(tmp_path, [(HI, "")]) as server:
        choice = both(server)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("", "stop")


def test_a_stream_has_usage_where_it_is_asked_for(tmp_path):
    with serving(tmp_path, [(HI, "hello")]) as server:
        heard = events_of(ask(server, stream=True, stream_options={"include_usage": True}).text)
        plain = events_of(ask(server, stream=True, stream_options={"include_usage": False}).text)
    assert [event["usage"] for event in heard[:-1]] == [None] * (len(heard) - 1)
    assert heard[-1]["usage"]["completion_tokens"] == heard[-2]["timings"]["predicted_n"]
    assert all("usage" not in event for event in plain)
    assert "tool_calls" not in json.dumps(plain)
    assert len({(event["id"], event["created"], event["model"]) for event in heard}) == 1


def test_openais_client_chats_and_streams(tmp_path):
    with serving(tmp_path, [(HI, "Hello world.")]) as server:
        chat = server.openai.chat.completions
        whole = chat.create(model="tiny", messages=HI, logprobs=True, top_logprobs=2)
        assert whole.choices[0].message.content == "Hello world."
        tokens = whole.choices[0].logprobs.content
        assert b"".join(bytes(token.bytes) for token in tokens) == b"Hello world."
        assert all(len(token.top_logprobs) == 2 for token in tokens)
        with chat.stream(model="tiny", messages=HI) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_completion()
        assert types.count("content.done") == 1
        assert final.choices[0].message.content == "Hello world."
        assert final.choices[0].finish_reason == "stop"


def test_openais_client_calls_two_tools_and_goes_on_with_what_they_give(tmp_path):
    calls = call_text("weather") + "\n" + call_text("time")
    results = [{"role": "tool", "content": "sunny"}, {"role": "tool", "content": "noon"}]
    answers = [(HI, calls), ([*HI, calling("weather", "time"), *results], "Sunny at noon.")]
    with serving(tmp_path, answers, tools=TOOLS) as server:
        chat = server.openai.chat.completions
        both(server, tools=TOOLS)
        for stream in (False, True):
            messages = list(HI)
            if stream:
                with chat.stream(model="tiny", messages=messages, tools=TOOLS) as events:
                    done = events.get_final_completion().choices[0]
            else:
                done = chat.create(model="tiny", messages=messages, tools=TOOLS).choices[0]
            assert done.finish_reason == "tool_calls"
            assert done.message.content is None
            asked = done.message.tool_calls
            assert [(call.function.name, call.function.arguments) for call in asked] == [
                ("weather", "{}"),
                ("time", "{}"),
            ]
            assert len({call.id for call in asked}) == 2
            messages.append(done.message.model_dump(exclude_unset=stream))
            for call, text in zip(asked, ("sunny", "noon"), strict=True):
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
            after = chat.create(model="tiny", messages=messages, tools=TOOLS).choices[0]
            assert (after.message.content, after.finish_reason) == ("Sunny at noon.", "stop")
            assert after.message.tool_calls is None


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}, "none"])
def test_a_choice_of_tools_is_held_to(greeting, choice):
    done = both(greeting, tools=TOOLS, tool_choice=choice, max_tokens=400, temperature=0)["choices"][0]
    names = [call["function"]["name"] for call in done["message"].get("tool_calls", [])]
    if choice == "none":
        assert names == []
    elif done["finish_reason"] != "length":  # a script of hashes may go on writing blanks
        assert names == ["time"] if isinstance(choice, dict) else names


def test_openais_client_parses_what_it_asked_for(tmp_path):
    class Place(pydantic.BaseModel):
        name: str
        hot: bool

    with serving(tmp_path, [(HI, '{"name":"Rome","hot":true}')]) as server:
        done = server.openai.chat.completions.parse(model="tiny", messages=HI, response_format=Place)
        assert done.choices[0].message.parsed == Place(name="Rome", hot=True)
        with server.openai.chat.completions.stream(
            model="tiny", messages=HI, response_format=Place
        ) as stream:
            assert stream.get_final_completion().choices[0].message.parsed == Place(name="Rome", hot=True)


@pytest.mark.parametrize(
    ("asked", "param", "code"),
    [
        ({"messages": []}, "messages", None),
        ({"messages": [{"role": "alien"}]}, "messages[0].role", None),
        ({"messages": "hi"}, "messages", None),
        ({"n": 0}, "n", None),
        ({"n": 10000}, "n", None),
        ({"temperature": "hot"}, "temperature", None),
        ({"top_logprobs": 3}, "top_logprobs", None),
        ({"logit_bias": {"99999": 1}}, None, None),
        ({"stop_token_ids": [2**31]}, None, None),
        ({"chat_template": "{{ x }}"}, "chat_template", None),
        ({"functions": []}, "functions", None),
        ({"modalities": ["text", "audio"]}, "modalities", None),
        ({"add_generation_prompt": False}, "add_generation_prompt", None),
        ({"response_format": {"type": "regex", "regex": "(?=a)b"}}, None, None),
        ({"tool_choice": "required"}, None, None),
        ({"tools": [{"type": "web_search"}]}, None, None),
        ({"tools": [{}] * 4}, "tools", None),
        ({"adapter": "../../etc"}, None, None),
        ({"num_beams": 2, "temperature": 1}, None, None),
        ({"messages": [user("x" * 5000)]}, None, "context_length_exceeded"),
        ({"max_tokens": 5000}, None, "context_length_exceeded"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_answered_is_refused_with_a_status_of_its_own(greeting, asked, param, code, stream):
    answer = ask(greeting, stream=stream, **asked)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert code in (None, error["code"])
    assert param is None or error["param"].startswith(param)
    assert ask(greeting, max_tokens=1).status_code == 200
    greeting.wait_until_idle()


def test_unknown_fields_are_named_once(tmp_path, caplog):
    with serving(tmp_path, [(HI, "hello")]) as server:
        for _ in range(2):
            assert ask(server, wurst=1, **{"x" * 100: 1}).status_code == 200
    assert [record.args for record in caplog.records if "means nothing" in record.message] == [("wurst",)]


def test_a_full_queue_refuses_streams_too_with_429(tmp_path):
    engine = EngineConfig(cache_tokens=4096, scheduler=SchedulerConfig(max_seqs=1, max_waiting=0))
    with (
        serving(tmp_path, engine=engine, pace_s=0.005, stream_start_s=WAIT_S) as server,
        contextlib.closing(raw_request(server.url, body_of(stream=True))),
    ):
        until(lambda: server.backend.num_steps > 3)
        for stream in (False, True):
            answer = ask(server, stream=stream)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
            assert answer.json()["error"]["code"] == "queue_full"


def test_an_engine_that_fails_in_a_stream_says_so_in_it(tmp_path):
    with serving(tmp_path, pace_s=0.01) as server:
        with server.http.stream("POST", "/v1/chat/completions", json={**LONG, "stream": True}) as answer:
            text = ""
            for piece in answer.iter_text():
                text += piece
                if text.count("data:") == 4:
                    server.llm._client._life.end(  # what the end of an engine's process does
                        __import__("onnxgen.errors").errors.EngineDeadError("killed")
                    )
        last = text.strip().split("\n\n")[-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_failed"
        assert "[DONE]" not in text
        assert server.observer.ends == [("error", 503)]


def body_of(**asked):
    return json.dumps({**LONG, **asked}).encode()


def raw_request(url, body):
    """A connection on which a request was sent."""
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=WAIT_S)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return connection


def until(condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
def test_a_client_that_leaves_frees_everything(tmp_path, stream, phase):
    engine = EngineConfig(cache_tokens=4096, scheduler=SchedulerConfig(max_seqs=2))
    with serving(tmp_path, engine=engine, pace_s=0.002, stream_start_s=0.05) as server:
        if phase != "decode":
            server.backend.gate.clear()
        first = raw_request(server.url, body_of(stream=stream, n=2)) if phase == "queued" else None
        if first is not None:
            until(lambda: server.llm.num_pending == 1)
        leaving = raw_request(server.url, body_of(stream=stream, n=2))
        until(lambda: server.llm.num_pending == (2 if phase == "queued" else 1))
        if phase == "prefill":
            assert server.backend.asked.wait(WAIT_S)
        if phase == "decode":
            until(lambda: server.backend.num_steps > 5)
        leaving.close()
        until(lambda: ("cancelled", 499) in server.observer.ends)
        server.backend.gate.set()
        if first is not None:
            until(lambda: server.llm.num_pending == 1)
            first.close()
        server.wait_until_idle()
        steps = server.backend.num_steps
        time.sleep(0.1)
        assert server.backend.num_steps <= steps + 3
        assert set(server.observer.ends) == {("cancelled", 499)}
        assert ask(server, max_tokens=1).status_code == 200


def test_closing_a_stream_of_openais_client_ends_it(tmp_path):
    with serving(tmp_path, pace_s=0.002) as server:
        stream = server.openai.chat.completions.create(
            model="tiny", messages=HI, stream=True, max_tokens=4000, extra_body={"ignore_eos": True}
        )
        for _, _ in zip(range(5), stream, strict=False):
            pass
        assert server.llm.num_pending == 1
        stream.close()
        server.wait_until_idle()
        until(lambda: server.observer.ends)
        assert server.observer.ends == [("cancelled", 499)]


def test_a_client_that_reads_slowly_gets_everything(tmp_path):
    with serving(tmp_path) as server:
        with raw_request(server.url, body_of(stream=True, max_tokens=700)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            server.wait_until_idle()
            heard = b""
            while b"[DONE]" not in heard:
                heard += connection.recv(1500)
        assert heard.count(b'"finish_reason":"length"') == 1


def kept(server):
    """The only conversation that the server keeps."""
    (session,) = server.services.sessions.sessions()
    return session


def test_a_conversation_that_the_server_keeps_goes_on(tmp_path):
    first, second = {"role": "assistant", "content": "Hello."}, user("and?")
    answers = [(HI, "Hello."), ([*HI, first, second], "Bye.")]
    with serving(tmp_path, answers) as server:
        headers = {"X-Session-Id": "s1"}
        body = {"model": "tiny", "messages": HI, "stream": True}
        heard = events_of(server.http.post("/v1/chat/completions", json=body, headers=headers).text)
        assert (heard[-1]["session_id"], heard[-1]["session_token_count"] > 0) == ("s1", True)
        server.wait_until_idle()
        until(lambda: kept(server).message_count == 2)
        body = {"model": "tiny", "messages": [second]}
        answer = server.http.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.headers["x-session-id"] == "s1"
        done = answer.json()
        assert done["choices"][0]["message"]["content"] == "Bye."
        assert done["session_token_count"] == done["usage"]["total_tokens"]
        assert [message["content"] for message in kept(server).messages] == ["hi", "Hello.", "and?", "Bye."]
        several = {"model": "tiny", "messages": HI, "n": 2}
        refused = server.http.post("/v1/chat/completions", json=several, headers=headers)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "n")


def test_a_conversation_remembers_what_came_before_the_client_stopped_it(tmp_path):
    with serving(tmp_path, [(HI, "hello world " * 50)], pace_s=0.005) as server:
        headers = {"X-Session-Id": "s1"}
        body = {"model": "tiny", "messages": HI, "stream": True}
        with server.http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            lines = answer.iter_lines()
            while '"content":"' not in next(lines):
                pass
            busy = server.http.post("/v1/chat/completions", json=body, headers=headers)
            assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
        until(lambda: kept(server).message_count == 2)
        said = kept(server).messages[1]["content"]
        assert said
        assert ("hello world " * 50).startswith(said)


def test_the_last_message_is_continued_where_that_is_asked_for(tmp_path):
    messages = [*HI, {"role": "assistant", "content": "Hello"}]
    with serving(tmp_path, [(HI, "Hello world.")]) as server:
        done = both(server, messages=messages, continue_final_message=True, add_generation_prompt=False)
        assert done["choices"][0]["message"]["content"] == " world."
        wrong = ask(server, continue_final_message=True)
        assert wrong.status_code == 400
