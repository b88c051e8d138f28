"""`Observer`: what it counts of requests, and that each counts once."""

import asyncio
import re
import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.facade.results import Chunk, Completion, Timings, Usage
from onnxgen.server.observe.ended import EndedRequest
from onnxgen.server.observe.observer import Observed, Observer


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class _Listener:
    def __init__(self) -> None:
        self.began_ids: list[str] = []
        self.requests: list[EndedRequest] = []

    def began(self, observed: Observed) -> None:
        self.began_ids.append(observed.request_id)

    def ended(self, observed: Observed, request: EndedRequest) -> None:
        assert observed.request_id == request.request_id
        self.requests.append(request)

    def close(self) -> None:
        pass


def _end(
    index: int = 0, *, tokens: tuple[int, ...] = (), prompt: int = 7, cached: int = 3, reason="eos"
) -> Chunk:
    usage = Usage(prompt, 5, cached)
    completion = Completion("", (), reason, usage, Timings(None, None, None, None))
    return Chunk("", tokens, index, reason, completion)


def _value(observer: Observer, name: str, **labels: str) -> float | None:
    return observer.metrics.registry.get_sample_value(name, labels)


def _begin(observer: Observer, **options) -> Observed:
    asked = {"request_id": "r", "endpoint": "chat.completions", "model": "m", "stream": True, "tenant": ""}
    return observer.begin(**(asked | options))


def test_times_are_taken_from_the_first_token_and_between_tokens():
    clock, heard = _Clock(), _Listener()
    observer = Observer(clock=clock, listeners=[heard])
    request = _begin(observer)
    clock.now += 0.5
    request.piece(Chunk("", ()))  # a piece without a token is none
    clock.now += 0.5
    request.piece(Chunk("a", (1,)))
    clock.now += 0.2
    request.piece(Chunk("bcde", (2, 3, 4, 5)))
    clock.now += 0.1
    request.piece(_end())
    request.end("ok", status=200)
    assert _value(observer, "onnxgen_time_to_first_token_seconds_sum", model="m") == 1.0
    between = _value(observer, "onnxgen_inter_token_seconds_sum", model="m")
    assert between is not None
    assert abs(between - 0.05) < 1e-9
    assert _value(observer, "onnxgen_inter_token_seconds_count", model="m") == 1
    (ended,) = heard.requests
    assert ended.ttft_s == 1.0
    assert ended.tokens_s is not None
    assert abs(ended.tokens_s - 4 / 0.3) < 1e-9
    assert (ended.prompt_tokens, ended.cached_tokens, ended.completion_tokens) == (7, 3, 5)
    assert ended.finish_reasons == ("eos",)
    assert heard.began_ids == ["r"]


@given(prompts=st.integers(1, 4), n=st.integers(1, 4), seed=st.randoms(use_true_random=False))
def test_a_prompt_counts_once_however_many_answers_it_gets(prompts, n, seed):
    observer = Observer()
    request = _begin(observer, n=n)
    indices = list(range(prompts * n))
    seed.shuffle(indices)
    for index in indices:
        request.piece(_end(index, tokens=(index,), prompt=10 + index // n))
    request.end("ok", status=200)
    assert _value(observer, "onnxgen_prompt_tokens_total", model="m") == sum(10 + i for i in range(prompts))
    assert _value(observer, "onnxgen_cached_prompt_tokens_total", model="m") == 3 * prompts
    assert _value(observer, "onnxgen_completion_tokens_total", model="m") == prompts * n
    assert _value(observer, "onnxgen_answers_total", model="m", reason="eos") == prompts * n


def test_a_request_ends_once_and_is_in_progress_until_then():
    heard = _Listener()
    observer = Observer(listeners=[heard])
    where = {"endpoint": "chat.completions", "model": "m"}
    request, other = _begin(observer), _begin(observer)
    assert _value(observer, "onnxgen_requests_in_progress", **where) == 2
    request.end("cancelled", status=499)
    request.end("error", status=500, error=ValueError("late"))
    assert _value(observer, "onnxgen_requests_in_progress", **where) == 1
    other.end("error", status=500, error=ValueError("a secret"))
    assert _value(observer, "onnxgen_requests_in_progress", **where) == 0
    assert _value(observer, "onnxgen_requests_total", **where, outcome="cancelled") == 1
    assert _value(observer, "onnxgen_requests_total", **where, outcome="error") == 1
    assert [request.error for request in heard.requests] == [None, "ValueError"]
    assert "secret" not in repr(heard.requests)


def test_tokens_of_a_request_that_was_cut_count_as_far_as_they_came():
    heard = _Listener()
    observer = Observer(listeners=[heard])
    request = _begin(observer)
    request.usage(prompt_tokens=12, cached_tokens=4)
    request.piece(Chunk("ab", (1, 2)))
    request.end("cancelled", status=499)
    assert _value(observer, "onnxgen_completion_tokens_total", model="m") == 2
    assert _value(observer, "onnxgen_prompt_tokens_total", model="m") == 12
    assert heard.requests[0].finish_reasons == ()


def test_the_text_has_every_family_once_and_only_ours():
    observer = Observer()
    _begin(observer).end("ok", status=200)
    text = observer.metrics.text().decode()
    families = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(families) == len(set(families))
    assert families
    assert all(name.startswith("onnxgen_") for name in families)
    assert "_created" not in text


def test_a_listener_that_hangs_does_not_keep_the_server(monkeypatch):
    class Hanging(_Listener):
        def close(self) -> None:
            threading.Event().wait(20)

    monkeypatch.setattr("onnxgen.server.observe.observer._LAST_WORDS_S", 0.05)
    began = time.monotonic()
    asyncio.run(Observer(listeners=[Hanging()]).aclose())
    assert time.monotonic() - began < 15
