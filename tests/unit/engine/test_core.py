"""`EngineCore` on the scripted backend: life cycles, errors that stay with their request, and answers equal to those alone."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.conformance.engine_trace import check_trace
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import (
    BackendError,
    ContextLengthError,
    LogitsProcessorError,
    OptionError,
    StateError,
    TokenIdError,
)
from onnxgen.scheduler.config import SchedulerConfig

EOS = 31
BACKENDS = {"pages": {"block_size": 4}, "slots": {}}


class Clock:
    """Time that goes on when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(params=BACKENDS)
def backend(request):
    return FakeBackend(max_context=64, **BACKENDS[request.param])


def engine(backend, *, clock=None, budgets=None, **config):
    config.setdefault("cache_tokens", 64 * 8)
    return EngineCore(
        backend,
        EngineConfig(scheduler=SchedulerConfig(**(budgets or {})), **config),
        eos_ids=[EOS],
        **({"clock": clock} if clock else {}),
    )


def drive(core, *, until=None):
    """Every event, up to the end or to a number of steps."""
    events, steps = [], 0
    while core.has_work and (until is None or steps < until):
        events += core.step()
        core.check_integrity()
        steps += 1
    return events


def answers(events):
    """Tokens by request and sample, without those that end them."""
    found = {}
    for event in events:
        tokens = found.setdefault((event.request_id, event.index), [])
        if event.token_id is not None and not event.is_eos:
            tokens.append(event.token_id)
    return found


def ends(events):
    return {(e.request_id, e.index): e for e in events if e.finish_reason is not None}


def alone(backend, request):
    core = engine(backend)
    core.submit(request)
    found = answers(drive(core))
    core.close()
    return [found[key] for key in sorted(found)]


def test_greedy_tokens_are_the_models(backend):
    core = engine(backend)
    prompt = [3, 1, 4, 1, 5]
    request = core.submit(EngineRequest(prompt, max_new_tokens=12, ignore_eos=True))
    tokens = answers(drive(core))[request, 0]
    for i, token in enumerate(tokens):
        assert token == int(np.argmax(backend.logits_after([*prompt, *tokens[:i]])))
    assert len(tokens) == 12


def test_many_requests_get_what_each_gets_alone(backend):
    rng = np.random.default_rng()
    requests = [
        EngineRequest(
            rng.integers(0, 31, rng.integers(1, 20)).tolist(),
            sampling=SamplingOptions(
                temperature=float(rng.choice([0.0, 1.0])), seed=int(rng.integers(1 << 40))
            ),
            max_new_tokens=int(rng.integers(1, 30)),
        )
        for _ in range(20)
    ]
    core = engine(backend, budgets={"chunk_tokens": 6, "max_step_tokens": 40})
    ids = [core.submit(request) for request in requests]
    found = answers(drive(core))
    assert [found[i, 0] for i in ids] == [alone(backend, request)[0] for request in requests]


def test_an_eos_token_ends_an_answer_and_is_not_part_of_it():
    backend = FakeBackend(block_size=4, continuations={(1, 2): (5, 6)}, eos_token_id=EOS)
    core = engine(backend)
    request = core.submit(EngineRequest([1, 2]))
    events = drive(core)
    assert answers(events)[request, 0] == [5, 6]
    end = ends(events)[request, 0]
    assert (end.token_id, end.is_eos, end.finish_reason) == (EOS, True, "eos")
    assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (2, 2)


def test_eos_can_be_ignored_and_other_tokens_can_stop():
    backend = FakeBackend(block_size=4, continuations={(1, 2): (EOS, 6, 7, 8)})
    core = engine(backend)
    request = core.submit(EngineRequest([1, 2], ignore_eos=True, stop_token_ids=[7]))
    events = drive(core)
    assert answers(events)[request, 0] == [EOS, 6]
    assert ends(events)[request, 0].finish_reason == "stop"


def test_an_answer_without_a_limit_ends_at_the_context(backend):
    core = engine(backend)
    request = core.submit(EngineRequest([1, 2, 3], ignore_eos=True))
    events = drive(core)
    assert len(answers(events)[request, 0]) == 61
    assert ends(events)[request, 0].finish_reason == "length"


def test_a_request_that_cannot_fit_says_both_numbers(backend):
    core = engine(backend)
    with pytest.raises(ContextLengthError, match=r"60 prompt tokens and max_new_tokens=5 .* 64"):
        core.submit(EngineRequest([1] * 60, max_new_tokens=5))
    with pytest.raises(ContextLengthError, match=r"64 prompt tokens .* 64"):
        core.submit(EngineRequest([1] * 64))
    request = core.submit(EngineRequest([1] * 60, max_new_tokens=5, allow_cap=True, ignore_eos=True))
    assert len(answers(drive(core))[request, 0]) == 4


@pytest.mark.parametrize(
    ("prompt", "error"),
    [([], OptionError), ([32], TokenIdError), ([-1], TokenIdError), ([1.5], TokenIdError)],
)
def test_a_bad_prompt_is_refused_and_the_engine_goes_on(backend, prompt, error):
    core = engine(backend)
    with pytest.raises(error):
        core.submit(EngineRequest(prompt))
    core.submit(EngineRequest([1], max_new_tokens=1, ignore_eos=True))
    assert len(drive(core)) == 1


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_a_cancel_ends_a_request_within_a_step(backend, steps):
    core = engine(backend, budgets={"chunk_tokens": 4, "max_step_tokens": 32})
    staying = core.submit(EngineRequest([7, 8], max_new_tokens=12, ignore_eos=True))
    going = core.submit(EngineRequest(list(range(12)), ignore_eos=True))
    before = drive(core, until=steps)
    assert core.cancel(going)
    after = drive(core, until=1)
    assert ends(after)[going, 0].finish_reason == "cancelled"
    assert not core.cancel(going)
    rest = drive(core)
    assert (going, 0) not in answers(rest)
    expected = alone(backend, EngineRequest([7, 8], max_new_tokens=12, ignore_eos=True))[0]
    assert answers([*before, *after, *rest])[staying, 0] == expected


def test_deadlines_end_requests(backend):
    clock = Clock()
    core = engine(backend, clock=clock)
    request = core.submit(EngineRequest([1, 2], ignore_eos=True, deadline_s=5))
    other = core.submit(EngineRequest([1, 2], ignore_eos=True, max_new_tokens=10))
    drive(core, until=3)
    clock.now = 5.0
    events = drive(core)
    assert ends(events)[request, 0].finish_reason == "deadline"
    assert ends(events)[request, 0].usage.completion_tokens == 3
    assert ends(events)[other, 0].finish_reason == "length"


def test_samples_share_the_prompt_and_draw_from_streams_of_their_own(backend):
    request = EngineRequest(
        list(range(10)),
        sampling=SamplingOptions(temperature=1, seed=5),
        n=4,
        max_new_tokens=9,
        ignore_eos=True,
    )
    core = engine(backend)
    before = backend.num_tokens
    core.submit(request)
    found = answers(drive(core))
    assert len({tuple(tokens) for tokens in found.values()}) == 4
    assert backend.num_tokens - before <= 10 + 4 * 8
    core.submit(request)
    assert list(answers(drive(core)).values()) == list(found.values())
    third = EngineRequest(
        request.prompt,
        sampling=SamplingOptions(temperature=1, seed=5, stream=2),
        max_new_tokens=9,
        ignore_eos=True,
    )
    assert alone(backend, third) == [found[0, 2]]


@pytest.mark.parametrize("before", [0, 1, 4])
def test_one_sample_of_several_can_be_cancelled(backend, before):
    request = EngineRequest(
        list(range(10)),
        sampling=SamplingOptions(temperature=1, seed=5),
        n=3,
        max_new_tokens=9,
        ignore_eos=True,
    )
    expected = alone(backend, request)
    core = engine(backend, budgets={"chunk_tokens": 5, "max_step_tokens": 32})
    core.submit(request)
    events = drive(core, until=before)
    assert core.cancel(0, index=0)
    events += drive(core)
    assert ends(events)[0, 0].finish_reason == "cancelled"
    assert [answers(events)[0, i] for i in (1, 2)] == expected[1:]


def test_samples_that_were_cancelled_before_the_fork_take_no_seats():
    core = engine(FakeBackend(max_context=64, block_size=4), budgets={"max_seqs": 3})
    several = core.submit(EngineRequest([5, 6], max_new_tokens=9, n=3, ignore_eos=True))
    others = [core.submit(EngineRequest([i], max_new_tokens=2, ignore_eos=True)) for i in (7, 8)]
    assert core.cancel(several, index=0)
    assert core.cancel(several, index=2)
    assert {e.request_id for e in drive(core, until=2)} == {several, *others}, "all fit side by side"
    ended = ends(drive(core))
    assert ended[several, 1].finish_reason == "length"


def test_a_step_that_fails_once_costs_nobody_anything(backend):
    requests = [EngineRequest([i, 1, 2, 3, 4], max_new_tokens=8, ignore_eos=True) for i in range(4)]
    expected = [alone(backend, request)[0] for request in requests]
    failing = FakeBackend(
        max_context=64, fail_steps={2, 9}, block_size=4 if backend.capabilities.paged else None
    )
    core = engine(failing)
    ids = [core.submit(request) for request in requests]
    events = drive(core)
    assert [answers(events)[i, 0] for i in ids] == expected
    assert core.stats().failed_steps == 2


def test_only_the_request_at_fault_ends(backend):
    def fails(tokens):
        return len(tokens) > 9 and tokens[0] == 2

    failing = FakeBackend(
        max_context=64, fail_when=fails, block_size=4 if backend.capabilities.paged else None
    )
    requests = [EngineRequest([i, 1, 2, 3, 4], max_new_tokens=12, ignore_eos=True) for i in range(4)]
    core = engine(failing)
    ids = [core.submit(request) for request in requests]
    events = drive(core)
    assert {ends(events)[i, 0].finish_reason for i in ids if i != ids[2]} == {"length"}
    end = ends(events)[ids[2], 0]
    assert end.finish_reason == "error"
    assert isinstance(end.error, BackendError)
    for i in (0, 1, 3):
        assert answers(events)[ids[i], 0] == alone(backend, requests[i])[0]


def test_a_logits_processor_that_raises_ends_its_own_request_only(backend):
    def raising(history, row):
        if len(history) == 7:
            raise ZeroDivisionError("mine")

    core = engine(backend)
    bad = core.submit(EngineRequest([1, 2, 3], processors=[raising], ignore_eos=True))
    good = core.submit(EngineRequest([1, 2, 3], max_new_tokens=9, ignore_eos=True))
    events = drive(core)
    assert isinstance(ends(events)[bad, 0].error, LogitsProcessorError)
    assert len(answers(events)[bad, 0]) == 4
    assert len(answers(events)[good, 0]) == 9


def test_steps_that_failed_say_nothing_of_what_a_token_costs():
    core = engine(FakeBackend(max_context=64, block_size=4, fail_steps=[0]))
    for prompt, expected in (([3, 4, 5], False), ([6, 7, 8], True)):
        core.submit(EngineRequest(prompt, max_new_tokens=1, ignore_eos=True))
        core.step()
        assert (core._costs.seconds_per_token is not None) == expected


def test_a_token_that_could_not_be_chosen_is_not_counted():
    def refuse(history, row):
        row[:] = -np.inf

    core = engine(FakeBackend(max_context=64, block_size=4))
    core.submit(EngineRequest([3], max_new_tokens=2, processors=[refuse]))
    core.submit(EngineRequest([4], max_new_tokens=2, ignore_eos=True))
    drive(core)
    assert core.stats().generated_tokens == 2


@pytest.mark.parametrize("n", [1, 3])
def test_an_interrupt_while_tokens_are_chosen_costs_nobody_anything(backend, n, tmp_path):
    calls = []

    def interrupted_once(history, row):
        calls.append(len(history))
        if len(calls) == 2:
            raise KeyboardInterrupt

    drawn = SamplingOptions(temperature=1.0, seed=7)
    request = EngineRequest([3, 1, 4], sampling=drawn, max_new_tokens=9, n=n, ignore_eos=True)
    other = EngineRequest([5] * 6, max_new_tokens=12, ignore_eos=True)
    expected = [*alone(backend, request), *alone(backend, other)]
    core = engine(backend, trace=tmp_path / "trace")
    core.submit(replace(request, processors=[interrupted_once]))
    core.submit(other)
    events = []
    with pytest.raises(KeyboardInterrupt):
        while True:
            events += core.step()
    core.check_integrity()
    assert list(answers(events + drive(core)).values()) == expected
    core.close()
    assert not check_trace((tmp_path / "trace").read_text().splitlines()).violations


def test_a_second_request_computes_only_what_is_new(backend):
    core = engine(backend)
    prompt = list(range(20))
    core.submit(EngineRequest(prompt, max_new_tokens=4, ignore_eos=True))
    first = answers(drive(core))[0, 0]
    before = backend.num_tokens
    core.submit(EngineRequest([*prompt, *first, 9, 9], max_new_tokens=1, ignore_eos=True))
    end = ends(drive(core))[1, 0]
    assert end.usage.cached_tokens == 23  # all but the answer's last token and the new ones
    assert backend.num_tokens - before == 3


def test_salt_keeps_prefixes_apart_and_reuse_can_be_switched_off(backend):
    for config, salts in (({}, ("a", "b")), ({"prefix_reuse": False}, (None, None))):
        core = engine(backend, **config)
        for salt in salts:
            core.submit(EngineRequest(list(range(20)), max_new_tokens=1, ignore_eos=True, salt=salt))
            assert next(iter(ends(drive(core)).values())).usage.cached_tokens == 0
        core.close()


def test_a_pool_for_one_and_a_half_serves_four():
    backend = FakeBackend(max_context=64, block_size=4)
    requests = [EngineRequest([i, 1, 2, 3], max_new_tokens=40, ignore_eos=True) for i in range(4)]
    expected = [alone(backend, request)[0] for request in requests]
    core = engine(backend, cache_tokens=64)
    ids = [core.submit(request) for request in requests]
    events = drive(core)
    assert [answers(events)[i, 0] for i in ids] == expected
    assert core.stats().preemptions > 0


def test_stats_count_who_waits_for_a_first_step_and_who_gave_way():
    core = engine(FakeBackend(max_context=64, block_size=4), budgets={"max_seqs": 3})
    for i in range(4):
        core.submit(EngineRequest([i + 3] * 5, max_new_tokens=20, ignore_eos=True))
    drive(core, until=2)
    assert (core.stats().running, core.stats().waiting) == (3, 1)
    core.reconfigure(SchedulerConfig(max_seqs=1))
    core.step()
    assert (core.stats().running, core.stats().waiting) == (1, 3)
    assert core.last_step.waiting == 3
    assert core.stats().preemptions == 2


def test_a_long_prompt_does_not_stop_the_others():
    backend = FakeBackend(max_context=256, block_size=4)
    core = engine(backend, budgets={"chunk_tokens": 16, "max_step_tokens": 32}, cache_tokens=1024)
    short = core.submit(EngineRequest([1, 2], max_new_tokens=40, ignore_eos=True))
    drive(core, until=2)
    core.submit(EngineRequest(list(range(30)) * 7, max_new_tokens=2, ignore_eos=True))
    for _ in range(13):
        assert (short, 0) in answers(core.step())
        assert core.last_step.prefill_tokens <= 16


def test_an_engine_has_one_owner(backend):
    core = engine(backend)
    core.submit(EngineRequest([1], max_new_tokens=2, ignore_eos=True))
    found = []

    def other():
        try:
            core.step()
        except StateError as error:
            found.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert "belongs to the thread" in str(found[0])
    core.hand_over()
    thread = threading.Thread(target=lambda: (core.step(), core.hand_over()))
    thread.start()
    thread.join()
    assert len(drive(core)) == 1


def test_a_closed_engine_says_so(backend):
    core = engine(backend)
    core.submit(EngineRequest([1]))
    core.close()
    core.close()
    with pytest.raises(StateError, match="closed"):
        core.submit(EngineRequest([1]))


def test_a_sequence_that_crosses_the_rotary_switch_is_computed_again():
    backend = FakeBackend(max_context=64, block_size=4)
    core = EngineCore(backend, EngineConfig(cache_tokens=256), rope_switch_length=20)
    core.submit(EngineRequest(list(range(16)), max_new_tokens=10, ignore_eos=True))
    drive(core)
    assert [s.num_tokens for s in backend.steps] == [16, 1, 1, 1, 1, 21, 1, 1, 1, 1]


def test_windows_have_room_for_a_chunk_that_crosses_the_rotary_switch():
    core = EngineCore(
        FakeBackend(block_size=4, window=8, max_context=4096),
        EngineConfig(scheduler=SchedulerConfig(max_seqs=1), cache_tokens=4096),
        rope_switch_length=1500,
    )
    core.submit(EngineRequest([3] * 1600, max_new_tokens=2, ignore_eos=True))
    core.submit(EngineRequest([4] * 1499, max_new_tokens=4, ignore_eos=True))
    assert {e.finish_reason for e in ends(drive(core)).values()} == {"length"}
    assert core.last_step.number > 4


def test_strict_chunks_are_as_long_as_windows_have_room_for():
    core = EngineCore(
        FakeBackend(block_size=4, window=8, max_context=4096),
        EngineConfig(
            scheduler=SchedulerConfig(max_seqs=1, solo=True, chunk_tokens=1020, max_step_tokens=1020),
            cache_tokens=4096,
        ),
    )
    core.submit(EngineRequest([3] * 3000, max_new_tokens=2, ignore_eos=True))
    assert {e.finish_reason for e in ends(drive(core)).values()} == {"length"}
