"""`EngineWatch`: asks engines in the background what they have counted, so that no request has to wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from onnxgen.engine.stats import EngineStats
from onnxgen.errors import OnnxgenError
from onnxgen.server.observe.engine_numbers import EngineNumbers, EngineRates, rates_between
from onnxgen.server.observe.statistics import statistics_line

_log = logging.getLogger("onnxgen.server.statistics")

_TIMEOUT_S = 5.0
_MOST = 64


class Countable(Protocol):
    """An engine that says what it has counted."""

    async def stats(self, *, timeout_s: float | None = None) -> EngineStats:
        """What it has counted."""
        ...


class Watched(Protocol):
    """A model that is loaded."""

    @property
    def id(self) -> str:
        """What clients call it."""
        ...

    @property
    def llm(self) -> Countable | None:
        """What writes; None where the model only gives vectors."""
        ...


class WatchedModels(Protocol):
    """What is loaded."""

    def loaded(self) -> Sequence[Watched]:
        """What is in memory and works."""
        ...


class EngineWatch:
    """The last numbers of every loaded model's engine. For one event loop.

    Args:
        models: What to ask.
        interval_s: How often.
        statistics_s: Seconds between lines of statistics, which are written only while something happens; 0: none.
        clock: The observer's.
        sleep: Waits for so many seconds.
    """

    def __init__(
        self,
        models: WatchedModels,
        *,
        interval_s: float = 1.0,
        statistics_s: float = 10.0,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._models = models
        self._interval_s, self._statistics_s = interval_s, statistics_s
        self._clock, self._sleep = clock, sleep
        self._known: dict[str, deque[EngineNumbers]] = {}
        self._at_line: dict[str, EngineNumbers] = {}
        self._line_at = clock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask; `aclose` ends it."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def aclose(self) -> None:
        """Ask no more. Calling it twice is harmless."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def latest(self, model: str) -> EngineNumbers | None:
        """The last numbers of a loaded model's engine; None where it has not said any."""
        known = self._known.get(model)
        return known[-1] if known else None

    def models(self) -> list[str]:
        """Models whose numbers are known."""
        return list(self._known)

    def rates(self, model: str, *, window_s: float = 10.0) -> EngineRates | None:
        """What a model's engine did in the last seconds; None where that is not known."""
        known = self._known.get(model)
        if not known or len(known) < 2:
            return None
        after = known[-1]
        before = next((n for n in known if after.at_s - n.at_s <= window_s), known[-2])
        return rates_between(before if before is not after else known[-2], after)

    async def look(self) -> None:
        """Ask all engines once."""
        loaded = [(model.id, model.llm) for model in self._models.loaded()]
        for gone in self._known.keys() - {id for id, _ in loaded}:
            self._forget(gone)
        await asyncio.gather(*(self._ask(id, llm) for id, llm in loaded if llm is not None))

    def write_statistics(self) -> None:
        """Write a line for each engine that did something since the last one, or has something to do."""
        for model in self._known:
            now = self.latest(model)
            if now is None:
                continue
            rates = rates_between(self._at_line[model], now)
            self._at_line[model] = now
            # an engine that took another one's place began with nothing
            happened = rates.steps if rates is not None else now.stats.steps
            if happened or now.stats.running or now.stats.waiting:
                _log.info("%s", statistics_line(model, now, rates), extra=_fields(model, now, rates))

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
                if self._statistics_s and self._clock() - self._line_at >= self._statistics_s:
                    self._line_at = self._clock()
                    self.write_statistics()
            except Exception:  # noqa: BLE001 - numbers are not worth a server
                _log.exception("the numbers of engines could not be had")
            await self._sleep(self._interval_s)

    async def _ask(self, model: str, llm: Countable) -> None:
        """Ask one engine; what it said before stays where it does not answer in time, and not where it has failed."""
        try:
            stats = await llm.stats(timeout_s=_TIMEOUT_S)
        except TimeoutError:
            return
        except OnnxgenError:
            self._forget(model)
            return
        numbers = EngineNumbers(self._clock(), stats)
        self._known.setdefault(model, deque(maxlen=_MOST)).append(numbers)
        self._at_line.setdefault(model, numbers)

    def _forget(self, model: str) -> None:
        self._known.pop(model, None)
        self._at_line.pop(model, None)


def _fields(model: str, now: EngineNumbers, rates: EngineRates | None) -> dict[str, object]:
    """The numbers of a line, for logs that machines read."""
    fields: dict[str, object] = {
        "model": model,
        "running": now.stats.running,
        "waiting": now.stats.waiting,
        "kv_usage": round(now.kv_usage, 4),
    }
    if rates is not None:
        fields["prompt_tok_s"] = round(rates.prompt_tok_s, 2)
        fields["answer_tok_s"] = round(rates.answer_tok_s, 2)
        fields["preemptions"] = rates.preemptions
        if rates.prefix_hit_rate is not None:
            fields["prefix_hit_rate"] = round(rates.prefix_hit_rate, 4)
        if rates.accepted_rate is not None:
            fields["accepted_rate"] = round(rates.accepted_rate, 4)
    return {"fields": fields}
