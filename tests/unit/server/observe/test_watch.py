"""`EngineWatch`: the last numbers of engines, rates between them, and lines of statistics."""

import asyncio
import logging
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.speculation.stats import MethodStats, SpeculationStats
from onnxgen.engine.stats import EngineStats
from onnxgen.errors import EngineDeadError
from onnxgen.server.models.states import ModelState, ModelStatus
from onnxgen.server.observe.engine_metrics import EngineMetrics
from onnxgen.server.observe.engine_numbers import EngineNumbers, rates_between
from onnxgen.server.observe.metrics import Metrics
from onnxgen.server.observe.statistics import statistics_line
from onnxgen.server.observe.watch import EngineWatch


@pytest.fixture(scope="module")
def stats() -> EngineStats:
    """Of an engine that has done something."""
    core = EngineCore(FakeBackend(max_context=64, block_size=4), EngineConfig(cache_tokens=256), eos_ids=[31])
    for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 4, 6]):
        core.submit(EngineRequest(prompt, max_new_tokens=6, ignore_eos=True))
        while core.has_work:
            core.step()
    core.submit(EngineRequest([7, 8, 9], max_new_tokens=6, ignore_eos=True))
    core.step()
    return core.stats()


@dataclass
class Engine:
    """Says what a test tells it to."""

    answer: object

    async def stats(self, *, timeout_s=None):
        assert timeout_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Models:
    def __init__(self, **engines):
        self.engines = engines

    def loaded(self):
        return [SimpleNamespace(id=id, llm=engine) for id, engine in self.engines.items()]

    def statuses(self):
        return [_status(id) for id in self.engines]


def _status(id: str, state: ModelState = ModelState.READY) -> ModelStatus:
    return ModelStatus(id, (), state, "generate", 2, 1, 0.0, 1.0, 5, None, 64, 3, None, None)


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


def test_numbers_of_an_engine_that_fails_or_leaves_are_not_kept(stats):
    models = Models(a=Engine(stats), b=Engine(stats), c=None)
    watch = EngineWatch(models)
    asyncio.run(watch.look())
    assert sorted(watch.models()) == ["a", "b"]
    models.engines["a"].answer = EngineDeadError("gone")
    asyncio.run(watch.look())
    assert (watch.latest("a"), watch.latest("b").stats) == (None, stats)
    del models.engines["b"]
    asyncio.run(watch.look())
    assert watch.latest("b") is None


def test_an_engine_in_a_long_step_keeps_its_last_numbers(stats):
    clock, engine = Clock(), Engine(stats)
    watch = EngineWatch(Models(a=engine), clock=clock)
    asyncio.run(watch.look())
    engine.answer = TimeoutError("busy")
    clock.now += 5
    asyncio.run(watch.look())
    assert watch.latest("a").at_s == 50.0


def test_rates_are_of_the_last_seconds_only(stats):
    clock, engine = Clock(), Engine(stats)
    watch = EngineWatch(Models(a=engine), clock=clock)
    assert watch.rates("a") is None
    for second in range(30):
        more = 100 * second if second < 15 else 1400 + 10 * (second - 14)
        engine.answer = replace(
            stats, generated_tokens=stats.generated_tokens + more, steps=stats.steps + second
        )
        clock.now = 50.0 + second
        asyncio.run(watch.look())
    rates = watch.rates("a")
    assert rates.answer_tok_s == pytest.approx(10.0)
    assert rates.steps == 10
    assert rates.prefix_hit_rate is None


def test_rates_across_engines_are_not_known(stats):
    later = EngineNumbers(2.0, replace(stats, steps=stats.steps - 1))
    assert rates_between(EngineNumbers(1.0, stats), later) is None
    assert rates_between(EngineNumbers(1.0, stats), EngineNumbers(1.0, stats)) is None


def test_a_line_is_written_only_while_something_happens(stats, caplog):
    clock, engine = Clock(), Engine(replace(stats, running=0, waiting=0))
    watch = EngineWatch(Models(a=engine), clock=clock)
    with caplog.at_level(logging.INFO, logger="onnxgen.server.statistics"):
        for step, wanted in ((0, 1), (0, 1), (4, 2), (4, 2)):
            engine.answer = replace(engine.answer, steps=stats.steps + step)
            clock.now += 10
            asyncio.run(watch.look())
            watch.write_statistics()
            assert len(caplog.records) == wanted
        engine.answer = replace(engine.answer, waiting=2)
        clock.now += 10
        asyncio.run(watch.look())
        watch.write_statistics()
    line = caplog.records[-1]
    assert line.getMessage().startswith("a: 0 running, 2 waiting, prompts 0.0 tok/s")
    assert line.fields["waiting"] == 2


def test_a_line_has_what_there_was(stats):
    before = EngineNumbers(0.0, stats)
    guessed = SpeculationStats({"prompt_lookup": MethodStats(verified_tokens=40, accepted_tokens=30)})
    cache = replace(
        stats.cache, queried_tokens=stats.cache.queried_tokens + 80, hit_tokens=stats.cache.hit_tokens + 20
    )
    after = replace(
        stats,
        running=3,
        steps=stats.steps + 5,
        prefill_tokens=stats.prefill_tokens + 60,
        generated_tokens=stats.generated_tokens + 44,
        preemptions=stats.preemptions + 2,
        cache=cache,
        speculation=guessed,
    )
    now = EngineNumbers(4.0, after)
    assert statistics_line("m", now, rates_between(before, now)) == (
        "m: 3 running, 0 waiting, prompts 15.0 tok/s, answers 11.0 tok/s, KV 1.6%, prefix hits 25.0%, "
        "drafts accepted 75.0%, 2 preemptions"
    )
    assert statistics_line("m", now, None) == "m: 3 running, 0 waiting, KV 1.6%"


def test_it_goes_on_when_looking_fails(stats, caplog):
    class Failing(Models):
        looks = 0

        def loaded(self):
            self.looks += 1
            if self.looks == 1:
                raise RuntimeError("a mistake")
            return super().loaded()

    async def run():
        models = Failing(a=Engine(stats))
        watch = EngineWatch(models, interval_s=0.001)
        watch.start()
        async with asyncio.timeout(30):
            while watch.latest("a") is None:
                await asyncio.sleep(0.001)
        await watch.aclose()
        await watch.aclose()
        looks = models.looks
        await asyncio.sleep(0.02)
        return looks == models.looks

    assert asyncio.run(run())
    assert "a mistake" in caplog.text


def test_numbers_for_prometheus_are_those_of_the_engine(stats):
    models, metrics = Models(a=Engine(stats)), Metrics()
    watch = EngineWatch(models)
    metrics.add(EngineMetrics(watch, models))
    assert metrics.registry.get_sample_value("onnxgen_engine_steps_total", {"model": "a"}) is None
    asyncio.run(watch.look())

    def value(name, **labels):
        return metrics.registry.get_sample_value(f"onnxgen_{name}", {"model": "a"} | labels)

    full = stats.cache.full
    assert value("sequences_running") == stats.running == 1
    assert value("sequences_waiting") == 0
    assert value("kv_usage_ratio") == full.in_use / full.total > 0
    assert value("prefix_hit_ratio") == stats.cache.hit_tokens / stats.cache.queried_tokens > 0
    assert value("engine_steps_total") == stats.steps
    assert value("engine_generated_tokens_total") == stats.generated_tokens
    assert value("preemptions_total") == stats.preemptions
    assert value("kv_blocks", group="full", state="in_use") == full.in_use
    assert sum(value("kv_blocks", group="full", state=s) for s in ("in_use", "cached", "free")) == full.total
    assert value("kv_blocks", group="window", state="free") is None
    assert value("kv_used_bytes") == full.used_bytes
    assert value("engine_finished_total", reason="length") == 2
    assert value("draft_tokens_total", method="prompt_lookup", state="accepted") == 0
    assert value("draft_accepted_ratio") is None
    assert value("model_state", state="ready") == 1
    assert value("model_state", state="failed") == 0
    assert value("engine_restarts") == 3
    assert metrics.registry.get_sample_value("onnxgen_resident_bytes", {"process": "server", "model": ""})
    assert metrics.text().decode().count("# TYPE onnxgen_engine_steps_total") == 1
