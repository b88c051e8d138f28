"""`EngineMetrics`: the numbers of engines, models and memory, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from onnxgen.engine.stats import EngineStats
from onnxgen.foundations.process_memory import resident_bytes, resident_bytes_of
from onnxgen.kvcache.usage import CacheUsage, GroupUsage
from onnxgen.server.models.states import ModelState, ModelStatus
from onnxgen.server.observe.engine_numbers import EngineNumbers
from onnxgen.server.observe.watch import EngineWatch


class StatusTable(Protocol):
    """How models are."""

    def statuses(self) -> Sequence[ModelStatus]:
        """Of all that there are."""
        ...


class EngineMetrics(Collector):
    """The numbers of engines, models and memory, as they were last heard; nothing is asked while they are collected.

    Counters begin anew with a new engine, which Prometheus takes for what it is.

    Args:
        watch: The last numbers of engines.
        table: How models are.
    """

    def __init__(self, watch: EngineWatch, table: StatusTable) -> None:
        self._watch, self._table = watch, table

    def collect(self) -> Iterator[Metric]:
        """All families, those without numbers too."""
        yield from _model_families(self._table.statuses())
        known = {model: self._watch.latest(model) for model in self._watch.models()}
        numbers = {model: found for model, found in known.items() if found is not None}
        for make in (_gauges, _counters):
            yield from make(numbers)
        yield _block_family(numbers)
        yield _draft_family(numbers)
        yield _finish_family(numbers)


_GAUGES: tuple[tuple[str, str, Callable[[EngineNumbers], float | None]], ...] = (
    ("sequences_running", "Sequences that hold blocks and take part in steps.", lambda n: n.stats.running),
    (
        "sequences_waiting",
        "Sequences that wait for their first step, or gave way.",
        lambda n: n.stats.waiting,
    ),
    ("sequences_swapped", "Sequences whose keys and values were moved out.", lambda n: n.stats.cache.swapped),
    ("kv_usage_ratio", "Share of cache blocks that sequences hold.", lambda n: n.kv_usage),
    (
        "prefix_hit_ratio",
        "Share of prompt tokens that needed no computing, since the engine began.",
        lambda n: n.prefix_hit_rate,
    ),
    ("kv_capacity_bytes", "Memory of all cache blocks.", lambda n: _bytes(n.stats.cache, lambda g: g.total)),
    ("kv_used_bytes", "Memory of cache blocks in use.", lambda n: _bytes(n.stats.cache, lambda g: g.in_use)),
    (
        "draft_accepted_ratio",
        "Share of guessed tokens that count.",
        lambda n: n.stats.speculation.total.acceptance_rate,
    ),
)

_COUNTERS: tuple[tuple[str, str, Callable[[EngineStats], float]], ...] = (
    ("engine_steps", "Steps.", lambda s: s.steps),
    ("engine_failed_steps", "Steps that raised.", lambda s: s.failed_steps),
    ("engine_requests", "Requests that the engine accepted.", lambda s: s.submitted),
    (
        "engine_prompt_tokens",
        "Tokens of prompts that were computed, again after preemption too.",
        lambda s: s.prefill_tokens,
    ),
    ("engine_generated_tokens", "Tokens that were chosen.", lambda s: s.generated_tokens),
    ("preemptions", "How often a sequence gave up its blocks.", lambda s: s.preemptions),
    (
        "prefix_queried_tokens",
        "Prompt tokens that were looked up in the prefix cache.",
        lambda s: s.cache.queried_tokens,
    ),
    ("prefix_hit_tokens", "Of these, tokens that were there.", lambda s: s.cache.hit_tokens),
    ("prefix_evicted_blocks", "Blocks that the prefix cache gave up for room.", lambda s: s.cache.evicted),
    ("kv_allocation_failures", "How often no block could be had.", lambda s: s.cache.failures),
    ("swapped_out", "Sequences that were moved out.", lambda s: s.cache.swapped_out),
    ("swapped_in", "Sequences that were moved back.", lambda s: s.cache.swapped_in),
    ("draft_seconds", "Seconds spent guessing tokens.", lambda s: s.speculation.total.draft_s),
)


def _gauges(numbers: dict[str, EngineNumbers]) -> Iterator[Metric]:
    for name, text, value_of in _GAUGES:
        family = GaugeMetricFamily(f"onnxgen_{name}", text, labels=["model"])
        for model, found in numbers.items():
            value = value_of(found)
            if value is not None:
                family.add_metric([model], value)
        yield family


def _counters(numbers: dict[str, EngineNumbers]) -> Iterator[Metric]:
    for name, text, value_of in _COUNTERS:
        family = CounterMetricFamily(f"onnxgen_{name}", text, labels=["model"])
        for model, found in numbers.items():
            family.add_metric([model], value_of(found.stats))
        yield family


def _block_family(numbers: dict[str, EngineNumbers]) -> Metric:
    family = GaugeMetricFamily("onnxgen_kv_blocks", "Cache blocks.", labels=["model", "group", "state"])
    for model, found in numbers.items():
        cache = found.stats.cache
        for group, usage in (("full", cache.full), ("window", cache.window)):
            if usage is not None:
                for state in ("in_use", "cached", "free"):
                    family.add_metric([model, group, state], getattr(usage, state))
    return family


def _draft_family(numbers: dict[str, EngineNumbers]) -> Metric:
    family = CounterMetricFamily(
        "onnxgen_draft_tokens", "Tokens that were guessed ahead.", labels=["model", "method", "state"]
    )
    for model, found in numbers.items():
        for method, stats in found.stats.speculation.by_method.items():
            for state in ("proposed", "verified", "accepted"):
                family.add_metric([model, method, state], getattr(stats, f"{state}_tokens"))
    return family


def _finish_family(numbers: dict[str, EngineNumbers]) -> Metric:
    family = CounterMetricFamily(
        "onnxgen_engine_finished", "Sequences that ended in the engine.", labels=["model", "reason"]
    )
    for model, found in numbers.items():
        for reason, count in found.stats.finished.items():
            family.add_metric([model, reason], count)
    return family


def _model_families(statuses: Sequence[ModelStatus]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "onnxgen_model_state", "1 for the state that it is in.", labels=["model", "state"]
    )
    restarts = GaugeMetricFamily(
        "onnxgen_engine_restarts",
        "How often the engine failed and was made anew, since loading.",
        labels=["model"],
    )
    uses = GaugeMetricFamily("onnxgen_model_uses", "Requests that use or await the model.", labels=["model"])
    memory = GaugeMetricFamily("onnxgen_resident_bytes", "Memory in RAM.", labels=["process", "model"])
    server = resident_bytes()
    if server is not None:
        memory.add_metric(["server", ""], server)
    for status in statuses:
        for each in ModelState:
            state.add_metric([status.id, each.value], float(status.state is each))
        restarts.add_metric([status.id], status.restarts)
        uses.add_metric([status.id], status.uses)
        engine = resident_bytes_of(status.engine_pid)
        if engine is not None:
            memory.add_metric(["engine", status.id], engine)
    yield from (state, restarts, uses, memory)


def _bytes(cache: CacheUsage, count: Callable[[GroupUsage], int]) -> int:
    return sum(count(group) * group.block_bytes for group in cache.groups)
