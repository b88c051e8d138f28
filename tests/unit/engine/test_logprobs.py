"""Log probabilities of answers and prompts on the scripted backend: those of its logits, whatever happens on the way."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine import core as engine_core
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import BackendError, NeverFitsError
from onnxgen.scheduler.config import SchedulerConfig
from token_scores import check_prompt_scores, check_score, log_softmax

EOS = 31
BACKENDS = {
    "pages": {"block_size": 4},
    "slots": {},
    "windows": {"block_size": 4, "window": 6},
    "recurrent": {"rewind": False},
}
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6]


@pytest.fixture(params=BACKENDS)
def backend(request):
    return FakeBackend(max_context=64, **BACKENDS[request.param])


def engine(backend, *, cache_tokens=512, switch=None, tier=0, reuse=True, **budgets):
    config = EngineConfig(
        scheduler=SchedulerConfig(**budgets),
        cache_tokens=cache_tokens,
        host_tier_mb=tier,
        prefix_reuse=reuse,
    )
    return EngineCore(backend, config, eos_ids=[EOS], rope_switch_length=switch)


def drive(core, *, until=None):
    events, steps = [], 0
    while core.has_work and (until is None or steps < until):
        events += core.step()
        core.check_integrity()
        steps += 1
    return events


def check_answers(backend, requests, events):
    """Each token, the one that ends an answer too, comes with what the logits before it say of it."""
    sequences = {}
    for event in events:
        request = requests[event.request_id]
        tokens = sequences.setdefault((event.request_id, event.index), list(request.prompt))
        if event.token_id is None or request.logprobs is None:
            assert event.logprobs is None
            continue
        check_score(
            event.logprobs, log_softmax(backend.logits_after(tokens)), event.token_id, request.logprobs
        )
        tokens.append(event.token_id)


def check_prompts(backend, requests, events):
    """What is told of prompts comes once, with the first event."""
    heard = set()
    for event in events:
        request = requests[event.request_id]
        if request.prompt_logprobs is None or event.request_id in heard:
            assert event.prompt_logprobs is None
            continue
        heard.add(event.request_id)
        assert event.index == 0
        rows = [backend.logits_after(request.prompt[: i + 1]) for i in range(len(request.prompt))]
        check_prompt_scores(
            event.prompt_logprobs,
            rows,
            request.prompt,
            start=request.prompt_logprobs_start,
            top=request.prompt_logprobs,
        )
    assert heard == {i for i, request in requests.items() if request.prompt_logprobs is not None}


def run(core, *requests, until=None):
    by_id = {core.submit(request): request for request in requests}
    return by_id, drive(core, until=until)


@pytest.mark.parametrize("top", [None, 0, 1, 5, 32])
def test_of_chosen_tokens_and_the_best_ones(backend, top):
    requests = [
        EngineRequest(PROMPT, sampling=SamplingOptions(temperature=t, seed=3), max_new_tokens=9, logprobs=top)
        for t in (0.0, 1.5)
    ]
    by_id, events = run(engine(backend), *requests, EngineRequest(PROMPT[:5], max_new_tokens=4))
    check_answers(backend, by_id, events)


def test_raw_ones_are_of_the_logits_before_anything_changes_them(backend):
    def ban_all_but_seven(history, row):
        row[np.arange(32) != 7] = -np.inf

    request = EngineRequest(
        PROMPT,
        sampling=SamplingOptions(temperature=2.0, repetition_penalty=3.0, presence_penalty=1.0, seed=0),
        processors=[ban_all_but_seven],
        max_new_tokens=3,
        logprobs=3,
    )
    by_id, events = run(engine(backend), request)
    assert [event.token_id for event in events] == [7, 7, 7]
    check_answers(backend, by_id, events)


@pytest.mark.parametrize(("fields", "reason"), [({}, "eos"), ({"stop_token_ids": [6]}, "stop")])
def test_the_token_that_ends_an_answer_has_them_too(fields, reason):
    backend = FakeBackend(block_size=4, continuations={(1, 2): (5, 6)}, eos_token_id=EOS)
    by_id, events = run(engine(backend), EngineRequest([1, 2], logprobs=2, **fields))
    assert events[-1].finish_reason == reason
    assert events[-1].logprobs is not None
    check_answers(backend, by_id, events)


def test_of_each_of_several_samples(backend):
    request = EngineRequest(
        PROMPT,
        n=4,
        sampling=SamplingOptions(temperature=2.0, seed=1),
        max_new_tokens=6,
        logprobs=2,
        prompt_logprobs=3,
    )
    by_id, events = run(engine(backend), request)
    assert {event.index for event in events} == {0, 1, 2, 3}
    check_answers(backend, by_id, events)
    check_prompts(backend, by_id, events)


@pytest.mark.parametrize("start", [0, 1, 2, 7, 8, len(PROMPT) - 1])
@pytest.mark.parametrize("chunk_tokens", [1, 5, 64])
def test_of_a_prompt_in_chunks_from_any_position_on(backend, start, chunk_tokens):
    request = EngineRequest(PROMPT, max_new_tokens=2, prompt_logprobs=2, prompt_logprobs_start=start)
    by_id, events = run(engine(backend, chunk_tokens=chunk_tokens), request)
    check_prompts(backend, by_id, events)
    assert len(events) == 2


def test_of_a_prompt_of_one_token(backend):
    by_id, events = run(engine(backend), EngineRequest([5], max_new_tokens=2, prompt_logprobs=4))
    assert events[0].prompt_logprobs == (None,)
    check_prompts(backend, by_id, events)


@pytest.mark.parametrize("chunk_tokens", [4, 64])
def test_a_prompt_can_be_scored_alone(backend, chunk_tokens):
    prompts = [PROMPT, PROMPT[:1], PROMPT * 3, [1] * 64, PROMPT[:2]]
    requests = [EngineRequest(p, max_new_tokens=0, prompt_logprobs=1, n=1 + len(p) % 2) for p in prompts]
    core = engine(backend, chunk_tokens=chunk_tokens)
    by_id, events = run(core, *requests)
    check_prompts(backend, by_id, events)
    assert all((e.finish_reason, e.token_id) == ("length", None) for e in events)
    assert len(events) == sum(request.n for request in requests)
    assert core.stats().generated_tokens == 0
    assert core.stats().cache.full.in_use == 0


def test_a_prompt_that_can_never_fit_is_not_scored():
    backend = FakeBackend(block_size=4, max_context=64)
    core = EngineCore(backend, EngineConfig(cache_tokens=16, max_seq_tokens=16))
    core.submit(EngineRequest([1] * 16, max_new_tokens=0, prompt_logprobs=0))
    core = EngineCore(backend, EngineConfig(cache_tokens=64, scheduler=SchedulerConfig(max_cache_bytes=100)))
    with pytest.raises(NeverFitsError, match="shorten the prompt"):
        core.submit(EngineRequest([1] * 40, max_new_tokens=0, prompt_logprobs=0))


@pytest.mark.parametrize("start", [0, 3, 9, len(PROMPT) - 1])
def test_what_is_cached_is_used_up_to_where_the_telling_begins(start):
    backend = FakeBackend(max_context=64, block_size=4)
    core = engine(backend)
    run(core, EngineRequest(PROMPT, max_new_tokens=2))
    backend.steps.clear()
    request = EngineRequest(PROMPT, max_new_tokens=2, prompt_logprobs=1, prompt_logprobs_start=start)
    by_id, events = run(core, request)
    check_prompts(backend, by_id, events)
    assert events[-1].usage.cached_tokens == max(start - 1, 0)
    assert backend.steps[0].context_lens.tolist() == [max(start - 1, 0)]


def test_after_a_hit_on_any_backend(backend):
    core = engine(backend, chunk_tokens=8)
    for start in (0, 9, 17):
        request = EngineRequest(
            PROMPT, max_new_tokens=2, logprobs=1, prompt_logprobs=1, prompt_logprobs_start=start
        )
        by_id, events = run(core, request)
        check_prompts(backend, by_id, events)
        check_answers(backend, by_id, events)


def test_beside_neighbours_that_compute_the_same(backend):
    core = engine(backend, chunk_tokens=3)
    requests = [
        EngineRequest(
            [*PROMPT, i], max_new_tokens=3, logprobs=1, prompt_logprobs=i % 3, prompt_logprobs_start=start
        )
        for i, start in enumerate((20, 0, 12, 5, 20, 0))
    ]
    by_id, events = run(core, EngineRequest(PROMPT, max_new_tokens=3), *requests)
    check_prompts(backend, by_id, events)
    check_answers(backend, by_id, events)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_when_sequences_give_way_in_the_middle_of_their_prompts(preemption):
    backend = FakeBackend(max_context=64, block_size=4)
    core = engine(backend, cache_tokens=192, chunk_tokens=3, preemption=preemption, tier=1)
    requests = [
        EngineRequest(
            [i, *PROMPT, *PROMPT], max_new_tokens=16, ignore_eos=True, logprobs=1, prompt_logprobs=2
        )
        for i in range(6)
    ]
    by_id = {core.submit(request): request for request in requests}
    events = []
    for step in range(400):
        core.reconfigure(
            SchedulerConfig(chunk_tokens=3, preemption=preemption, max_seqs=1 if step // 4 % 2 else 4)
        )
        events += core.step()
        core.check_integrity()
        if not core.has_work:
            break
    assert core.stats().preemptions > 6
    check_prompts(backend, by_id, events)
    check_answers(backend, by_id, events)


@pytest.mark.parametrize("switch", [5, 20, 21, 22, 40])
def test_across_the_rotary_switch(backend, switch):
    core = engine(backend, switch=switch, chunk_tokens=4)
    requests = [
        EngineRequest(PROMPT[:k], max_new_tokens=25, ignore_eos=True, logprobs=1, prompt_logprobs=1)
        for k in (len(PROMPT), 3, 19)
    ]
    by_id, events = run(core, *requests)
    check_prompts(backend, by_id, events)
    check_answers(backend, by_id, events)


def test_logits_of_a_step_stay_within_their_memory(monkeypatch):
    monkeypatch.setattr(engine_core, "_LOGITS_BYTES", 10 * 4 * 32)
    backend = FakeBackend(max_context=64, block_size=4)
    core = engine(backend)
    requests = [EngineRequest([i, *PROMPT], max_new_tokens=2, prompt_logprobs=0) for i in range(4)]
    by_id, events = run(core, *requests, EngineRequest(PROMPT, max_new_tokens=2))
    check_prompts(backend, by_id, events)
    assert max(len(step.logits_rows) for step in backend.steps) <= 10 + 5
    assert max(step.num_tokens for step in backend.steps) > 20, "the others are not bounded"


def test_steps_that_fail_cost_nobody_a_position():
    backend = FakeBackend(
        max_context=64,
        block_size=4,
        fail_steps=range(1, 40, 3),
        fail_when=lambda tokens: tokens[:2] == [7, 7],
    )
    core = engine(backend, chunk_tokens=4)
    requests = [
        EngineRequest([i, *PROMPT], max_new_tokens=4, logprobs=1, prompt_logprobs=1) for i in range(3)
    ]
    by_id = {core.submit(request): request for request in requests}
    bad = core.submit(EngineRequest([7, 7, *PROMPT], max_new_tokens=4, logprobs=1, prompt_logprobs=1))
    events = drive(core)
    own = [event for event in events if event.request_id != bad]
    failed = {event.request_id for event in own if event.error is not None}
    ok = {i: request for i, request in by_id.items() if i not in failed}
    events = [event for event in own if event.request_id in ok]
    assert ok
    check_prompts(backend, ok, events)
    check_answers(backend, ok, events)


class Broken(FakeBackend):
    """Gives NaN after token 1 at position 3."""

    def execute(self, step, cache):
        output = super().execute(step, cache)
        rows = step.logits_rows
        output.logits[(step.token_ids[rows] == 1) & (step.positions[rows] == 3), 3] = np.nan
        return output


def test_a_prompt_without_numbers_ends_its_request_alone():
    backend = Broken(max_context=64, block_size=4)
    core = engine(backend, chunk_tokens=2)
    sound = EngineRequest([8, 8, 8, 8], max_new_tokens=3, prompt_logprobs=1)
    by_id, events = run(core, sound, EngineRequest(PROMPT, max_new_tokens=3, prompt_logprobs=1, n=2))
    ended = {(e.request_id, e.index): e for e in events if e.finish_reason is not None}
    for index in (0, 1):
        error = ended[1, index].error
        assert isinstance(error, BackendError)
        assert "no numbers after 4 tokens of the prompt" in str(error)
    check_prompts(backend, {0: by_id[0]}, [e for e in events if e.request_id == 0])
    assert core.stats().cache.full.in_use == 0


class Interrupting(FakeBackend):
    """Interrupts the caller, as Ctrl-C does, in some steps after they were executed."""

    at = frozenset()

    def execute(self, step, cache):
        output = super().execute(step, cache)
        if self.num_steps in self.at:
            raise KeyboardInterrupt
        return output


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("place", ["execute", "choose", "settle"])
def test_an_interrupt_loses_no_position(monkeypatch, kind, place):
    backend = Interrupting(max_context=64, **BACKENDS[kind])
    core = engine(backend, chunk_tokens=4)
    if place == "execute":
        backend.at = frozenset(range(2, 30, 3))
    else:
        owner, name = {
            "choose": (core._chooser, "choose"),
            "settle": (core._settler, "settle"),
        }[place]
        whole, calls = getattr(owner, name), []

        def interrupted(*args, **named):
            calls.append(None)
            if len(calls) % 3 == 2 and len(calls) < 30:
                raise KeyboardInterrupt
            return whole(*args, **named)

        monkeypatch.setattr(owner, name, interrupted)
    requests = [
        EngineRequest([i, *PROMPT], max_new_tokens=5, logprobs=1, prompt_logprobs=1) for i in range(3)
    ]
    by_id = {core.submit(request): request for request in requests}
    events, interrupts = [], 0
    while core.has_work:
        try:
            events += core.step()
        except KeyboardInterrupt:
            interrupts += 1
        core.check_integrity()
    assert interrupts > 2
    check_prompts(backend, by_id, events)
    check_answers(backend, by_id, events)


@pytest.mark.parametrize(("prompt", "steps"), [(PROMPT, 2), ([7], 0)])
def test_a_request_that_ends_early_tells_nothing_of_its_prompt(backend, prompt, steps):
    core = engine(backend, chunk_tokens=4)
    request = core.submit(EngineRequest(prompt, max_new_tokens=5, prompt_logprobs=1, n=2))
    drive(core, until=steps)
    core.cancel(request)
    events = drive(core)
    assert [event.finish_reason for event in events] == ["cancelled", "cancelled"]
    assert all(event.prompt_logprobs is None for event in events)


def test_the_next_sample_tells_it_where_the_first_has_ended(backend):
    core = engine(backend, chunk_tokens=4)
    request = core.submit(EngineRequest(PROMPT, max_new_tokens=5, prompt_logprobs=1, n=3))
    drive(core, until=2)
    core.cancel(request, index=0)
    told = [event.index for event in drive(core) if event.prompt_logprobs is not None]
    assert told == [1]
