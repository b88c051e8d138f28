"""Requests with a grammar, on a scripted backend, with grammars of which all answers are known."""

import numpy as np
import pytest

from list_grammars import ListCompiler, ListState, lists
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import CapabilityError, ConfigError, GrammarError, OptionError
from onnxgen.scheduler.config import SchedulerConfig

VOCAB, EOS = 40, 2


def make_core(*, backend=None, grammars="lists", eos=(EOS,), **config):
    backend = backend or FakeBackend(VOCAB, max_context=64)
    grammars = ListCompiler(VOCAB, eos) if grammars == "lists" else grammars
    budgets = {name: config.pop(name) for name in ("chunk_tokens", "max_seqs") if name in config}
    config = {"cache_tokens": 512, **config}
    return EngineCore(
        backend, EngineConfig(scheduler=SchedulerConfig(**budgets), **config), eos_ids=eos, grammars=grammars
    )


def run(core, *requests):
    """For each request its tokens by sample, its last events, and how many steps all took."""
    numbers = [core.submit(request) for request in requests]
    found = {
        number: {i: [] for i in range(request.n)} for number, request in zip(numbers, requests, strict=True)
    }
    ends, steps = {}, 0
    while core.has_work:
        for event in core.step():
            if event.token_id is not None and not event.is_eos:
                found[event.request_id][event.index].append(event.token_id)
            if event.finish_reason is not None:
                ends[event.request_id, event.index] = event
        core.check_integrity()
        steps += 1
    return [
        [(tokens, ends[number, i].finish_reason) for i, tokens in found[number].items()] for number in numbers
    ], steps


def ask(grammar, *, prompt=(5, 6, 7), temperature=0.0, seed=1, **options):
    sampling = options.pop("sampling", {})
    return EngineRequest(
        prompt,
        grammar=grammar,
        sampling=SamplingOptions(temperature=temperature, seed=seed, **sampling),
        **options,
    )


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_answer_is_one_of_the_grammar_and_ends_there(fast_forward, temperature):
    answers = [(10, 11, 12, 13), (10, 11, 14), (20, 21)]
    with_core = make_core()
    grammar = lists(*answers, fast_forward=fast_forward)
    found, _ = run(with_core, *[ask(grammar, seed=seed, temperature=temperature) for seed in range(20)])
    assert {tuple(tokens) for [(tokens, _)] in found} <= set(answers)
    assert {reason for [(_, reason)] in found} == {"eos"}
    if temperature:
        assert len({tuple(tokens) for [(tokens, _)] in found}) > 1


def test_tokens_that_must_follow_take_one_step():
    long = tuple(range(10, 35))
    [[(tokens, reason)]], steps = run(make_core(), ask(lists((4, *long, 5), (4, *long, 6))))
    assert tuple(tokens[:-1]) == (4, *long)
    assert reason == "eos"
    assert (
        steps == 2
    )  # the prompt, with the first token and all that must follow, and then the choice at the end
    [[(slow, _)]], steps = run(make_core(), ask(lists((4, *long, 5), (4, *long, 6), fast_forward=False)))
    assert (slow, steps) == (tokens, 1 + len(long) + 1)


def test_every_token_that_must_follow_is_told():
    core = make_core()
    core.submit(ask(lists((4, 8, 9, 10))))
    events = core.step()
    assert [event.token_id for event in events] == [4, 8, 9, 10, None]
    assert events[-1].finish_reason == "eos"
    assert events[-1].usage.completion_tokens == 4
    assert core.stats().generated_tokens == 4


@pytest.mark.parametrize("room", range(1, 6))
def test_no_more_tokens_follow_than_may(room):
    [[(tokens, reason)]], _ = run(make_core(), ask(lists((4, 8, 9, 10, 11)), max_new_tokens=room))
    assert tokens == [4, 8, 9, 10, 11][:room]
    assert reason == ("eos" if room == 5 else "length")  # complete answers are not cut ones


@pytest.mark.parametrize(
    "options", [{"logprobs": 0}, {"sampling": {"bad_words": [[30]]}}, {"processors": [lambda h, r: None]}]
)
def test_where_each_token_is_looked_at_none_is_skipped(options):
    [[(tokens, _)]], steps = run(make_core(), ask(lists((4, 8, 9, 10)), **options))
    assert (tokens, steps) == ([4, 8, 9, 10], 4)


def test_stop_tokens_end_an_answer_among_tokens_that_must_follow():
    [[(tokens, reason)]], _ = run(make_core(), ask(lists((4, 8, 9, 10)), stop_token_ids=[9]))
    assert (tokens, reason) == ([4, 8], "stop")


@pytest.mark.parametrize("fast_forward", [True, False])
def test_ends_that_do_not_count_end_a_complete_answer(fast_forward):
    answers = [(4,), (4, 8, 9), (4, 8, 10)]
    grammar = lists(*answers, fast_forward=fast_forward)
    found, _ = run(make_core(), *[ask(grammar, seed=i, temperature=1.0, ignore_eos=True) for i in range(12)])
    assert {(tuple(tokens), reason) for [(tokens, reason)] in found} <= {(a, "eos") for a in answers[1:]}


def test_an_end_is_chosen_only_where_the_grammar_accepts():
    script = {(5, 6, 7): [EOS], (5, 6, 7, 4): [EOS], (5, 6, 7, 4, 8): [EOS]}
    backend = FakeBackend(VOCAB, continuations=script, max_context=64)
    [[(tokens, reason)]], _ = run(make_core(backend=backend), ask(lists((4,), (4, 8), (4, 8, 9), (4, 8, 10))))
    assert (tokens, reason) == ([4], "eos")
    [[(tokens, _)]], _ = run(make_core(backend=backend), ask(lists((4, 8), (4, 8, 9), (4, 9))))
    assert tokens in ([4, 8], [4, 9])


def test_an_end_that_would_be_too_early_gives_way_only_where_others_may_follow():
    options = {"sampling": {"min_length": 30}}
    [[(tokens, reason)]], _ = run(make_core(), ask(lists((4,), (4, 8), fast_forward=False), **options))
    assert (tokens, reason) == ([4, 8], "eos")


def test_biases_choose_among_what_may_follow():
    grammar = lists((4, 8), (4, 9), (5, 8))
    for wanted in ((4, 8), (4, 9), (5, 8)):
        bias = {wanted[0]: 90.0, wanted[1]: 90.0, 30: 100.0}
        [[(tokens, _)]], _ = run(make_core(), ask(grammar, sampling={"logit_bias": bias}))
        assert tuple(tokens) == wanted


def test_a_grammar_of_which_options_leave_nothing_ends_its_request_alone():
    core = make_core()
    broken = ask(lists((4, 8), (5, 8)), sampling={"logit_bias": {4: -np.inf, 5: -np.inf}})
    other = ask(lists((4, 8), (5, 8)))
    numbers = [core.submit(broken), core.submit(other)]
    events = [event for _ in range(9) if core.has_work for event in core.step()]
    ends = {event.request_id: event for event in events if event.finish_reason}
    assert isinstance(ends[numbers[0]].error, OptionError)
    assert ends[numbers[1]].finish_reason == "eos"


def test_a_grammar_that_breaks_ends_its_request_alone():
    core = make_core()
    numbers = [core.submit(ask(lists((0, 8), (0, 9)))), core.submit(ask(lists((1, 8), (1, 9)), n=2))]
    events = []
    while core.has_work:
        events += core.step()
        core.check_integrity()
    ends = {(event.request_id, event.index): event for event in events if event.finish_reason}
    assert isinstance(ends[numbers[0], 0].error, GrammarError)
    assert [ends[numbers[1], i].finish_reason for i in (0, 1)] == ["eos", "eos"]


@pytest.mark.parametrize("where", ["follow", "fill", "forced", "is_complete"])
def test_whatever_a_grammar_raises_ends_its_request_alone(where, monkeypatch):
    def fail(self, *_):
        if self.own.answers[0][0] == 20:
            raise RuntimeError("out of cheese")
        return real.fget(self) if isinstance(real, property) else real(self, *_)

    real = getattr(ListState, where) if where != "is_complete" else ListState.__dict__["is_complete"]
    monkeypatch.setattr(ListState, where, property(fail) if where == "is_complete" else fail)
    core = make_core()
    numbers = [core.submit(ask(lists((20, 21, 22)))), core.submit(ask(lists((4, 8, 9))))]
    events = []
    while core.has_work:
        events += core.step()
    ends = {event.request_id: event for event in events if event.finish_reason}
    assert "out of cheese" in str(ends[numbers[0]].error)
    assert isinstance(ends[numbers[0]].error, GrammarError)
    assert ends[numbers[1]].finish_reason == "eos"


def test_a_refused_grammar_changes_nothing():
    core = make_core()
    with pytest.raises(GrammarError):
        core.submit(ask(lists()))
    assert not core.has_work
    assert core.stats().submitted == 0
    run(core, ask(lists((4, 8))))


def test_without_a_compiler_grammars_are_refused():
    core = make_core(grammars=None)
    with pytest.raises(CapabilityError, match="compiler of grammars"):
        core.submit(ask(lists((4, 8))))
    run(core, ask(None, max_new_tokens=3))


def test_a_compiler_for_another_vocabulary_or_other_ends_is_refused():
    with pytest.raises(ConfigError, match="made for 41 tokens"):
        make_core(grammars=ListCompiler(VOCAB + 1, (EOS,)))
    with pytest.raises(ConfigError, match="the ends"):
        make_core(grammars=ListCompiler(VOCAB, (EOS, 3)))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"grammar": "json"}, "must be a Grammar"),
        ({"grammar": Grammar.json_object(), "sampling": SamplingOptions(forced_tokens=[4])}, "forced_tokens"),
    ],
)
def test_what_goes_with_no_grammar_is_refused(options, said):
    with pytest.raises(OptionError, match=said):
        EngineRequest([1], **options)


def test_samples_fork_and_go_their_own_ways():
    answers = [(a, b, c, 30) for a in (4, 5, 6) for b in (7, 8, 9) for c in (10, 11)]
    [samples], _ = run(make_core(), ask(lists(*answers), temperature=3.0, n=8))
    assert {reason for _, reason in samples} == {"eos"}
    assert {tuple(tokens) for tokens, _ in samples} <= set(answers)
    assert len({tuple(tokens) for tokens, _ in samples}) > 1
    solo = [
        run(make_core(), ask(lists(*answers), temperature=3.0, sampling={"stream": i}))[0][0][0]
        for i in range(8)
    ]
    assert solo == samples


def test_a_prompt_that_is_only_scored_needs_no_mask():
    request = ask(lists((4, 8)), max_new_tokens=0, prompt_logprobs=0)
    [[(tokens, reason)]], _ = run(make_core(), request)
    assert (tokens, reason) == ([], "length")


def test_tokens_that_must_follow_are_computed_in_chunks():
    long = tuple(range(8, 38))
    grammar = lists((4, *long, 5), (4, *long, 6))
    whole, _ = run(make_core(), ask(grammar))
    chunked, steps = run(make_core(chunk_tokens=4), ask(grammar))
    assert chunked == whole
    assert steps > 30 / 4
    strict, steps = run(make_core(strict=True), ask(grammar))
    assert strict == whole


def test_a_failed_step_costs_nothing():
    answers = [(a, b, c) for a in (4, 5) for b in (7, 8) for c in (10, 11)]
    requests = [ask(lists(*answers), seed=i, temperature=1.0, prompt=(5, 6, i)) for i in range(3)]
    expected, _ = run(make_core(), *requests)
    found, _ = run(make_core(backend=FakeBackend(VOCAB, max_context=64, fail_steps=[1])), *requests)
    assert found == expected
