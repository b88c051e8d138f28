import random
import sys

import pytest
from benchmarks.serving import scenario
from benchmarks.serving.scenario import Request, Scenario, Setup
from benchmarks.serving.workers.driving import play
from benchmarks.serving.workers.endurance import endure
from benchmarks.serving.workers.onnxgen import Onnxgen, TimedBackend

from onnxgen.backends.fake import FakeBackend


@pytest.fixture(params=[None, 16], ids=["slots", "blocks"])
def program(request):
    """The worker's program around a backend without a model."""
    program = Onnxgen.__new__(Onnxgen)
    program.backend = TimedBackend(FakeBackend(vocab_size=40000, block_size=request.param, max_context=4096))
    program.context_length, program.engine = 4096, None
    return program


def _tokens(program, asked):
    return [answer.tokens for answer in play(program.open(asked.setup), asked).answers]


def test_answers_are_the_same_alone_and_together(program):
    asked = scenario.mixed(3)
    alone = [_tokens(program, Scenario([one], asked.setup))[0] for one in asked.requests]
    assert _tokens(program, asked) == alone


def test_a_conversation_computes_what_is_new(program):
    asked = scenario.conversation(3, system=40, user=10, answer=8)
    answers = play(program.open(asked.setup), asked).answers
    assert [one.prompt_tokens - one.cached_tokens for one in answers] == [50, 11, 11]


def test_each_play_begins_with_an_empty_cache(program):
    asked = scenario.steady(1)
    for _ in range(2):
        (answer,) = play(program.open(asked.setup), asked).answers
        assert answer.cached_tokens == 0


def test_without_reuse_nothing_is_cached(program):
    asked = scenario.shared_prompt(in_turn=True, prefix_reuse=False, count=3)
    assert [one.cached_tokens for one in play(program.open(asked.setup), asked).answers] == [0, 0, 0]


def test_parts_of_a_step_are_told_and_no_more_than_the_step(program):
    asked = Scenario([Request([1, 2, 3], 5)], Setup(max_seqs=1, max_tokens=8, parts=True))
    steps = play(program.open(asked.setup), asked).steps
    assert len(steps) == 5
    for step in steps:
        assert set(step.parts) == {"backend", "plan", "pack", "sample"}
        assert 0 < sum(step.parts.values()) <= step.seconds


@pytest.mark.parametrize("block_size", [None, 16], ids=["slots", "blocks"])
def test_after_a_long_life_no_block_is_held_and_every_request_has_ended(block_size):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    backend = FakeBackend(vocab_size=40000, block_size=block_size, max_context=4096)
    samples = endure(backend, context_length=4096, requests=30, every=10, seed=seed)
    assert [sample.requests for sample in samples] == [10, 20, 30]
    for sample in samples:
        assert sample.blocks_in_use == 0
        ended = dict(sample.ended)
        ended.pop("preempted")
        assert sum(ended.values()) == sample.requests
        assert (sample.rss_mb is None) == (sys.platform != "linux")
