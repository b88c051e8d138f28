"""The serving engine on a real model: many requests, one model, and the answers of each one alone."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from onnxgen import LLM, EngineConfig, GenerationOptions
from onnxgen.backends import load_backend
from onnxgen.backends.base import Backend
from onnxgen.conformance.engine_trace import check_trace
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.facade.resolve import resolve_model
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.metadata.model_spec import ModelSpec
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.scheduler.config import SchedulerConfig
from real_models import checkpoint_file

pytestmark = [pytest.mark.network, pytest.mark.timeout(600)]

LONGEST = 256
CAPITALS = ("France", "Italy", "Japan", "Egypt")
RULES = (
    "You are an assistant for travellers. You know the capitals of all countries, their history and their food. You "
    "answer every question in one short sentence, you are always polite, and you never answer with a question. When "
    "you do not know something, you say so, and name a place where the traveller can find out more about it."
)
Answers = dict[tuple[int, int], list[int]]


@dataclass(frozen=True)
class Served:
    """A loaded model, and engines on it."""

    name: str
    folder: Path
    spec: ModelSpec
    backend: Backend

    @contextlib.contextmanager
    def engine(self, *, num_seqs: float = 8, scheduler: SchedulerConfig | None = None, **config):
        core = EngineCore(
            self.backend,
            EngineConfig(
                scheduler=scheduler or SchedulerConfig(),
                max_seq_tokens=LONGEST,
                cache_tokens=int(num_seqs * LONGEST),
                strict=self.name == "ort",
                **config,
            ),
            eos_ids=self.spec.tokens.eos,
            context_length=self.spec.context_length,
        )
        with contextlib.closing(core):
            yield core

    def alone(self, requests: Sequence[EngineRequest]) -> Answers:
        found: Answers = {}
        for i, request in enumerate(requests):
            with self.engine() as engine:
                engine.submit(request)
                found |= {(i, index): tokens for (_, index), tokens in drive(engine).items()}
        return found


@pytest.fixture(scope="module", params=["native", "ort"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    checkpoint_file("smollm2", fetch=True)
    config = load_runtime_config().config
    folder = resolve_model("smollm2", config=config, precision="int4")
    spec = load_model_spec(folder)
    with contextlib.closing(load_backend(spec.decoder, RuntimeConfig(backend=request.param))) as backend:
        yield Served(request.param, folder, spec, backend)


@pytest.fixture
def draw() -> random.Random:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    return random.Random(seed)


def drive(engine: EngineCore, *, each_step: Callable[[], None] = lambda: None) -> Answers:
    """Run an engine empty; the answers by request and sample, each of which ends once."""
    found, ended = {}, set()
    while engine.has_work:
        for event in engine.step():
            key = event.request_id, event.index
            assert key not in ended
            tokens = found.setdefault(key, [])
            if event.token_id is not None and not event.is_eos:
                tokens.append(event.token_id)
            if event.finish_reason is not None:
                assert event.finish_reason in ("length", "eos"), event
                ended.add(key)
        each_step()
    assert ended == found.keys()
    return found


def words(draw: random.Random, count: int) -> list[int]:
    return [draw.randrange(100, 30_000) for _ in range(count)]


def sampled(draw: random.Random) -> SamplingOptions:
    drawn = SamplingOptions(temperature=0.9, top_k=40, top_p=0.95, seed=draw.randrange(2**63))
    return draw.choice([SamplingOptions(), drawn])


def test_a_crowd_gets_the_tokens_of_each_alone_and_leaves_a_trace_without_fault(served, draw, tmp_path):
    shared = words(draw, 40)
    requests = [
        EngineRequest(
            [*shared[: draw.choice([0, 15, 16, 17, 40])], *words(draw, draw.choice([1, 15, 33]))],
            sampling=sampled(draw),
            max_new_tokens=draw.choice([1, 4, 9]),
            n=draw.choice([1, 1, 3]),
        )
        for _ in range(6)
    ]
    expected = served.alone(requests)
    trace = tmp_path / "trace.jsonl"
    scheduler = SchedulerConfig(max_seqs=4, chunk_tokens=24, max_step_tokens=28)
    order = draw.sample(range(len(requests)), len(requests))
    numbers: dict[int, int] = {}
    waiting = list(order)
    if served.name == "ort":  # whose bits depend on where a prompt is cut
        scheduler = SchedulerConfig(max_seqs=4)

    with served.engine(scheduler=scheduler, trace=trace) as engine:

        def arrive():
            if waiting:
                which = waiting.pop()
                numbers[engine.submit(requests[which])] = which

        arrive()
        arrive()
        found = drive(engine, each_step=arrive)
        engine.check_integrity()
        assert engine.stats().cache.full.in_use == 0
    assert {(numbers[number], index): tokens for (number, index), tokens in found.items()} == expected
    report = check_trace(trace.read_text(encoding="utf-8").splitlines())
    assert report.violations == ()
    assert report.events["finish"] == len(expected)


def test_four_that_grow_in_a_cache_for_one_and_a_half(served, draw, tmp_path):
    new, length = (50, 140) if served.name == "native" else (8, LONGEST)  # a slot has room for the longest
    requests = [
        EngineRequest(words(draw, 90), sampling=sampled(draw), max_new_tokens=new, ignore_eos=True)
        for _ in range(4)
    ]
    expected = served.alone(requests)
    for preemption in ("swap", "recompute"):
        trace = tmp_path / f"{preemption}.jsonl"
        with served.engine(
            num_seqs=1.5 * length / LONGEST,
            scheduler=SchedulerConfig(preemption=preemption),
            host_tier_mb=64,
            trace=trace,
        ) as engine:
            for request in requests:
                engine.submit(request)
            assert drive(engine) == expected
            stats = engine.stats()
        assert stats.finished == {"length": 4}
        assert check_trace(trace.read_text(encoding="utf-8").splitlines()).violations == ()


def test_a_prefix_that_was_computed_is_not_computed_again_and_changes_no_answer(served):
    encode = Tokenizer.from_folder(served.folder).encode
    system = encode(RULES)
    questions = [encode(f" Question: what is the capital of {name}? Answer:") for name in CAPITALS]
    requests = [EngineRequest([*system, *question], max_new_tokens=8) for question in questions]
    new = sum(map(len, questions))
    with contextlib.closing(plain_engine(served, prefix_reuse=False)) as engine:
        for request in requests:
            engine.submit(request)
        expected = drive(engine)
        assert engine.stats().prefill_tokens == 4 * len(system) + new
    with contextlib.closing(plain_engine(served, prefix_reuse=True)) as engine:
        for request in requests:
            engine.submit(request)
        assert drive(engine) == expected
        computed = engine.stats().prefill_tokens
        assert computed <= len(system) + new
        assert computed + engine.stats().cache.hit_tokens == 4 * len(system) + new


def plain_engine(served: Served, *, prefix_reuse: bool) -> EngineCore:
    """An engine that is not strict, with room for everybody."""
    return EngineCore(
        served.backend,
        EngineConfig(max_seq_tokens=LONGEST, cache_tokens=8 * LONGEST, prefix_reuse=prefix_reuse),
        eos_ids=served.spec.tokens.eos,
        context_length=served.spec.context_length,
    )


def test_a_turn_of_a_conversation_computes_what_is_new(served):
    options = GenerationOptions(max_new_tokens=6)
    config = EngineConfig(max_seq_tokens=LONGEST, cache_tokens=2 * LONGEST)
    with LLM(served.folder, backend=served.backend, engine=config) as llm, llm.session() as session:
        before = 0
        for question in ("Name a colour.", "And another?", "A third one?"):
            *_, last = session.send(question, options=options)
            usage = last.completion.usage
            assert usage.cached_tokens == before
            before = usage.prompt_tokens + usage.completion_tokens - 1  # the last token was not computed
        answer = last.completion.text
        # the same conversation at once, on nothing that was computed before
    with LLM(served.folder, backend=served.backend, engine=config) as llm:
        again = llm.chat(session.messages[:-1], options=options)
        assert again.usage.cached_tokens == 0
        assert again.text == answer


def test_requests_that_are_cancelled_or_fail_leave_nothing_behind(served, draw):
    with served.engine() as engine:
        for _ in range(5):
            numbers = [
                engine.submit(EngineRequest(words(draw, 20), max_new_tokens=30, ignore_eos=True, n=n))
                for n in (1, 2, 1)
            ]
            numbers.append(
                engine.submit(
                    EngineRequest(
                        words(draw, 20), max_new_tokens=30, processors=(Failing(draw.randrange(3)),)
                    )
                )
            )
            events = []
            for number in draw.sample(numbers, 4):
                for _ in range(draw.randrange(3)):
                    events += engine.step()
                engine.cancel(number)
            while engine.has_work:
                events += engine.step()
            engine.check_integrity()
            ends = [event.finish_reason for event in events if event.finish_reason is not None]
            assert len(ends) == 5
            assert set(ends) <= {"cancelled", "error"}
        usage = engine.stats().cache
        assert usage.full.in_use == usage.sequences == 0
        engine.forget_prefixes()
        assert engine.stats().cache.full.free == usage.full.total


class Failing:
    """A logits processor that raises when an answer has this many tokens."""

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self, tokens, logits):
        if self._at == 0:
            raise ValueError("this one fails")
        self._at -= 1
