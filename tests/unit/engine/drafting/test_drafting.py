"""Drafts in an engine: who gets one, where it ends, and what is said of it."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CapabilityError, ConfigError, OptionError
from onnxgen.scheduler.config import SchedulerConfig

ALWAYS = Speculation("prompt_lookup", max_draft_tokens=4, adaptive=False)
EOS = 1


class Says:
    """Proposes the same tokens every time, and remembers what it was asked."""

    name = "says"
    needs_hidden_states = False

    def __init__(self, *tokens):
        self.tokens, self.asked, self.forgotten, self.closed = tokens, [], [], 0

    def propose(self, wanted):
        self.asked.append([(each.key, len(each.history), each.num_tokens) for each in wanted])
        return [Draft(self.tokens) for _ in wanted]

    def forget(self, key):
        self.forgotten.append(key)

    def close(self):
        self.closed += 1


def counting(prompt, answer, **options):
    """A backend whose greedy answer to a prompt is known."""
    return FakeBackend(
        64, continuations={tuple(prompt): answer}, eos_token_id=EOS, max_context=100, **options
    )


def run(backend, *requests, proposer=None, speculation=ALWAYS, **config):
    core = EngineCore(
        backend,
        EngineConfig(cache_tokens=800, max_seq_tokens=100, speculation=speculation, **config),
        eos_ids=[EOS],
        proposers=None if proposer is None else {"prompt_lookup": proposer},
    )
    for request in requests:
        core.submit(request)
    events, steps = [], []
    while core.has_work:
        events.append(core.step())
        core.check_integrity()
        steps.append(core.last_step)
    return core, events, steps


def test_a_right_draft_brings_all_its_tokens_in_one_step():
    prompt, answer = [5, 6, 7], [10, 11, 12, 13, 14, 15, 16, 17]
    backend = counting(prompt, answer)
    core, events, steps = run(backend, EngineRequest(prompt, max_new_tokens=6), proposer=Says(11, 12, 13, 14))
    assert [[e.token_id for e in each] for each in events] == [[10], [11, 12, 13, 14, 15]]
    assert (steps[1].decode_tokens, steps[1].draft_tokens, steps[1].prefill_tokens) == (1, 4, 0)
    usage = events[-1][-1].usage
    assert (usage.completion_tokens, usage.draft_tokens, usage.accepted_draft_tokens) == (6, 4, 4)
    assert events[-1][-1].finish_reason == "length"
    total = core.stats().speculation.total
    assert (total.rounds, total.fully_accepted, total.acceptance_rate, total.mean_length) == (1, 1, 1.0, 4.0)
    assert core.stats().generated_tokens == 6


def test_what_follows_the_end_inside_a_draft_is_dropped():
    prompt, answer = [5, 6, 7], [10, 11, EOS, 12, 13]
    core, events, _ = run(
        counting(prompt, answer), EngineRequest(prompt, max_new_tokens=50), proposer=Says(11, EOS, 12, 13)
    )
    end = events[-1][-1]
    assert (end.finish_reason, end.token_id, end.is_eos, end.usage.completion_tokens) == ("eos", EOS, True, 2)
    assert core.stats().cache.full.in_use == 0
    again, events, _ = run(
        counting(prompt, answer),
        EngineRequest(prompt, max_new_tokens=50, stop_token_ids=[11]),
        proposer=Says(11, EOS, 12, 13),
    )
    end = events[-1][-1]
    assert (end.finish_reason, end.token_id, end.usage.completion_tokens) == ("stop", 11, 1)
    again.check_integrity()


def test_a_draft_never_leads_beyond_the_longest_answer():
    prompt = [5, 6, 7]
    says = Says(11, 12, 13, 14)
    run(counting(prompt, list(range(10, 40))), EngineRequest(prompt, max_new_tokens=4), proposer=says)
    assert [most for ((_, _, most),) in says.asked] == [2], "the last of four tokens comes behind it"


def test_ends_and_foreign_ids_cut_a_draft():
    prompt = [5, 6, 7]
    for tokens, computed in (((11, EOS, 12), 1), ((11, 99, 12), 1), ((-1, 11), 0), ((), 0)):
        backend = counting(prompt, [10, 20, 21, 22, 23])
        _, _, steps = run(backend, EngineRequest(prompt, max_new_tokens=8), proposer=Says(*tokens))
        assert steps[1].draft_tokens == computed, tokens


def test_methods_that_an_engine_has_not_are_refused_when_they_are_asked_for():
    core = EngineCore(FakeBackend(), EngineConfig(cache_tokens=64, max_seq_tokens=64))
    for method in ("draft_model", "heads"):
        with pytest.raises(CapabilityError, match=f"'{method}' was asked for.*only prompt_lookup"):
            core.submit(EngineRequest([1], speculation=Speculation(method)))
        with pytest.raises(CapabilityError, match=method):
            EngineCore(FakeBackend(), EngineConfig(speculation=Speculation(method)))
    assert not core.has_work
    core.submit(EngineRequest([1], max_new_tokens=2, speculation=Speculation("auto")))
    core.close()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "lookup"}, "method must be one of"),
        ({"max_draft_tokens": 0}, "max_draft_tokens must be"),
        ({"max_draft_tokens": 65}, "max_draft_tokens must be"),
        ({"min_match": 0}, "min_match must be"),
        ({"adaptive": 1}, "adaptive must be"),
    ],
)
def test_options_are_checked(options, match):
    with pytest.raises(OptionError, match=match):
        Speculation(**options)


def test_what_is_no_speculation_is_refused():
    with pytest.raises(OptionError, match="speculation must be a Speculation"):
        EngineRequest([1], speculation="auto")
    with pytest.raises(ConfigError, match="speculation is 'auto'"):
        EngineConfig(speculation="auto")


def test_requests_that_learn_or_look_from_token_to_token_get_no_drafts():
    class Best:
        def choose_rows(self, logits, rows):
            return np.argmax(logits, axis=1)

    says = Says(10, 11)
    run(
        FakeBackend(64, max_context=100),
        EngineRequest(
            [3, 4], max_new_tokens=4, sampling=SamplingOptions(mirostat=2, temperature=1.0, seed=1)
        ),
        EngineRequest([3, 5], max_new_tokens=4, processors=[lambda history, row: None]),
        EngineRequest([3, 6], max_new_tokens=4, sampler=Best()),
        EngineRequest([3, 7], max_new_tokens=4, speculation=Speculation("off")),
        proposer=says,
    )
    assert says.asked == []


def test_strict_engines_and_states_that_cannot_be_copied_have_no_drafts():
    def asked(**able):
        backend = FakeBackend(64, rewind=not able)
        for name, value in able.items():
            object.__setattr__(backend.capabilities, name, value)
        says = Says(10, 11)
        run(backend, EngineRequest([3, 4], max_new_tokens=5), proposer=says, strict=True)
        return bool(says.asked)

    assert asked(), "strictness changes nothing where rows do not depend on their company"
    assert not asked(batch_invariant=False)
    assert not asked(copy_blocks=False)
    assert asked(copy_blocks=True)


def test_failures_are_logged_once_and_the_third_is_the_last(caplog):
    class Fails(Says):
        def propose(self, wanted):
            super().propose(wanted)
            raise RuntimeError("out of ideas")

    fails = Fails()
    with caplog.at_level(logging.WARNING):
        core, events, _ = run(
            FakeBackend(64, max_context=100), EngineRequest([3, 4], max_new_tokens=9), proposer=fails
        )
    assert len(fails.asked) == 3
    assert sum("out of ideas" in record.getMessage() for record in caplog.records) == 1
    assert sum("go on without its drafts" in record.getMessage() for record in caplog.records) == 1
    assert core.stats().speculation.by_method["prompt_lookup"].failures == 3
    assert events[-1][-1].usage.completion_tokens == 9


def test_sequences_are_forgotten_when_they_end_and_proposers_stay_the_callers():
    says = Says(10)
    core, _, _ = run(
        FakeBackend(64, max_context=100),
        *[EngineRequest([3, i], max_new_tokens=4) for i in (4, 5)],
        proposer=says,
    )
    core.submit(EngineRequest([9], max_new_tokens=3))
    while core.has_work:
        core.step()
    asked = {key for call in says.asked for key, _, _ in call}
    core.close()
    assert set(says.forgotten) == asked
    assert says.closed == 0


def test_a_model_that_fails_on_a_draft_goes_on_without():
    prompt, answer = [5, 6, 7], [10, 11, 12, 13, 14]
    backend = counting(prompt, answer, fail_when=lambda tokens: 50 in tokens)
    core, events, _ = run(backend, EngineRequest(prompt, max_new_tokens=5), proposer=Says(11, 50))
    assert [e.token_id for each in events for e in each] == answer
    assert core.stats().failed_steps == 1


def test_drafts_that_never_count_are_switched_off_and_on_again():
    says = Says(63)
    adaptive = Speculation("prompt_lookup", max_draft_tokens=1)
    core, _, steps = run(
        FakeBackend(64, max_context=100), EngineRequest([3, 4], max_new_tokens=90, ignore_eos=True),
        proposer=says, speculation=adaptive,
    )  # fmt: skip
    computed = [step.draft_tokens for step in steps]
    assert sum(computed) < 40
    assert sum(computed[60:]) == 0
    assert core.stats().speculation.switched_off >= 1


def test_drafts_take_what_prompts_leave_of_a_step():
    prompt = [5, 6, 7]
    backend = counting(prompt, list(range(10, 60)))
    core = EngineCore(
        backend,
        EngineConfig(
            SchedulerConfig(max_seqs=4, max_step_tokens=8, chunk_tokens=8),
            cache_tokens=800, max_seq_tokens=100, speculation=ALWAYS,
        ),
        proposers={"prompt_lookup": Says(11, 12, 13, 14)},
    )  # fmt: skip
    core.submit(EngineRequest(prompt, max_new_tokens=40))
    core.step()
    core.submit(EngineRequest(list(range(20, 32)), max_new_tokens=1))
    core.step()
    assert (core.last_step.prefill_tokens, core.last_step.draft_tokens) == (7, 0)
    core.step()
    assert (core.last_step.prefill_tokens, core.last_step.draft_tokens) == (5, 2)
    core.close()
