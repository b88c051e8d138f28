"""Requests of different adapters in one engine, on the scripted backend, whose cache knows by which adapter it was filled."""

from __future__ import annotations

import random
import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import AdmissionError, OptionError, StateError
from onnxgen.scheduler.config import SchedulerConfig

VOCAB = 13
NAMES = (None, "a", "b")


def make_backend(**options):
    backend = FakeBackend(VOCAB, **{"block_size": 4, "max_context": 64, **options})
    for name in ("a", "b"):
        backend.adapters.load(Adapter(name, source="nowhere", digest=f"digest of {name}"))
    return backend


def make_engine(backend, *, cache_tokens=256, switch=None, **budgets):
    config = EngineConfig(scheduler=SchedulerConfig(**budgets), cache_tokens=cache_tokens)
    return EngineCore(backend, config, rope_switch_length=switch)


def alone(backend, prompt, count, adapter):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(backend.logits_after(tokens, adapter=adapter).argmax()))
    return tokens[len(prompt) :]


def run(engine, requests):
    """Answers of all samples of requests, and how many tokens of each prompt were reused."""
    ids = [engine.submit(request) for request in requests]
    samples = [(number, i) for number, request in zip(ids, requests, strict=True) for i in range(request.n)]
    answers, cached = {sample: [] for sample in samples}, {}
    while engine.has_work:
        for event in engine.step():
            assert event.error is None, event.error
            sample = event.request_id, event.index
            if event.token_id is not None:
                answers[sample].append(event.token_id)
            if event.usage is not None:
                cached[sample] = event.usage.cached_tokens
        engine.check_integrity()
    return [answers[sample] for sample in samples], [cached[sample] for sample in samples]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["step", "sequence"]),
    block_size=st.sampled_from([None, 4]),
    max_seqs=st.integers(1, 6),
    chunk=st.integers(1, 9),
    blocks=st.integers(12, 40),
    switch=st.sampled_from([None, 9]),
)
def test_each_request_gets_what_its_adapter_says(seed, kind, block_size, max_seqs, chunk, blocks, switch):
    rng = random.Random(seed)
    backend = make_backend(adapters=kind, block_size=block_size)
    engine = make_engine(
        backend,
        cache_tokens=4 * blocks,
        switch=switch,
        max_seqs=max_seqs,
        chunk_tokens=chunk,
        max_step_tokens=chunk + max_seqs,
    )
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randint(1, 20))] for _ in range(3)]
    requests = [
        EngineRequest(
            rng.choice(prompts),
            max_new_tokens=rng.randint(1, 12),
            n=rng.randint(1, min(2, max_seqs)),
            ignore_eos=True,
            adapter=rng.choice(NAMES),
        )
        for _ in range(8)
    ]
    requests = [r for r in requests if len(r.prompt) + r.max_new_tokens <= engine.max_seq_tokens]
    answers, _ = run(engine, requests)
    want = [alone(backend, r.prompt, r.max_new_tokens, r.adapter) for r in requests for _ in range(r.n)]
    assert answers == want
    for step in backend.steps:
        assert kind == "sequence" or len(set(step.adapters)) <= 1
    engine.close()


def test_requests_of_several_adapters_share_steps_where_the_backend_can():
    backend = make_backend()
    requests = [
        EngineRequest([1, 2, 3 + i], max_new_tokens=6, ignore_eos=True, adapter=NAMES[i]) for i in range(3)
    ]
    run(make_engine(backend), requests)
    assert any(set(step.adapters) == set(NAMES) for step in backend.steps)


def test_prefixes_are_shared_within_an_adapter_only():
    backend = make_backend()
    engine = make_engine(backend)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    backend.adapters.load(Adapter("also a", source="elsewhere", digest="digest of a"))
    cached = {}
    for name in ("a", "b", None, "a", "b", None, "also a"):
        [answer], [reused] = run(
            engine, [EngineRequest(prompt, max_new_tokens=2, ignore_eos=True, adapter=name)]
        )
        assert answer == alone(backend, prompt, 2, name)
        cached.setdefault(name, []).append(reused)
    assert cached == {"a": [0, 8], "b": [0, 8], None: [0, 8], "also a": [8]}


def test_a_name_that_comes_to_mean_something_else_finds_no_old_prefix():
    backend = make_backend()
    engine = make_engine(backend)
    request = EngineRequest([1, 2, 3, 4, 5, 6, 7, 8, 9], max_new_tokens=3, ignore_eos=True, adapter="a")
    first, _ = run(engine, [request])
    backend.adapters.unload("a")
    backend.adapters.load(Adapter("a", source="nowhere", digest=f"something new {secrets.token_hex()}"))
    second, [reused] = run(engine, [request])
    assert reused == 0
    assert second == [alone(backend, request.prompt, 3, "a")]
    assert first != second


@pytest.mark.parametrize("end", ["answer", "cancel", "close", "failure"])
def test_an_adapter_is_in_use_until_its_request_has_ended(end):
    backend = make_backend(fail_when=(lambda tokens: end == "failure" and len(tokens) > 5))
    engine = make_engine(backend)
    number = engine.submit(EngineRequest([1, 2, 3], max_new_tokens=8, ignore_eos=True, adapter="a", n=2))
    engine.step()
    with pytest.raises(StateError, match="'a' is in use by 1"):
        backend.adapters.unload("a")
    backend.adapters.unload("b")
    if end == "cancel":
        engine.cancel(number, index=1)
        with pytest.raises(StateError, match="in use"):
            backend.adapters.unload("a")
        engine.cancel(number)
    elif end == "close":
        engine.close()
    else:
        while engine.has_work:
            engine.step()
    backend.adapters.unload("a")
    assert backend.adapters.names == ()


def test_refused_requests_use_nothing():
    backend = make_backend()
    engine = make_engine(backend)
    with pytest.raises(OptionError, match="no adapter 'c'; loaded: a, b"):
        engine.submit(EngineRequest([1], adapter="c"))
    with pytest.raises(ValueError, match="context"):
        engine.submit(EngineRequest([1] * 90, adapter="a"))
    with pytest.raises(AdmissionError):
        engine.submit(EngineRequest([1], adapter="a", n=100))
    backend.adapters.unload("a")
