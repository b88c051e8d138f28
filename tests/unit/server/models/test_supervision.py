"""`supervise`: engines that die or hang are made anew."""

from __future__ import annotations

import asyncio

import pytest

from onnxgen.errors import EngineDeadError
from onnxgen.server.models.supervision import supervise


class ScriptedEngine:
    """Answers, hangs or dies as it is told."""

    def __init__(self) -> None:
        self.hangs = False
        self.dead = asyncio.Event()
        self.asked = 0

    async def failure(self) -> str:
        await self.dead.wait()
        return "killed"

    async def stats(self, *, timeout_s: float) -> None:
        self.asked += 1
        if self.dead.is_set():
            raise EngineDeadError("killed")
        if self.hangs:
            raise TimeoutError


def supervised(script, *, hang_s):
    """What was said and done while a script ran, by a clock that sleeping moves on."""
    told, now = [], 0.0

    async def sleep(seconds):
        nonlocal now
        now += seconds
        await asyncio.sleep(0)

    async def main():
        engine, before = ScriptedEngine(), asyncio.all_tasks()

        async def revive():
            engine.hangs = False
            engine.dead = asyncio.Event()
            told.append("revived")

        task = asyncio.create_task(
            supervise(
                "m",
                engine,
                when_dead=told.append,
                revive=revive,
                clock=lambda: now,
                sleep=sleep,
                hang_s=hang_s,
            )
        )
        await script(engine)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == before  # nobody is left behind

    asyncio.run(asyncio.wait_for(main(), 30))
    return told


async def _some_turns(number=200):
    for _ in range(number):
        await asyncio.sleep(0)


@pytest.mark.parametrize("hang_s", [None, 60.0])
def test_an_engine_that_dies_is_made_anew(hang_s):
    async def script(engine):
        for _ in range(2):
            await _some_turns(5)
            engine.dead.set()
            await _some_turns()

    assert supervised(script, hang_s=hang_s) == ["killed", "revived"] * 2


def test_an_engine_that_hangs_is_made_anew():
    async def script(engine):
        await _some_turns()
        engine.hangs = True
        await _some_turns()

    said, revived = supervised(script, hang_s=60.0)
    assert said.startswith("it did not answer for 6") and revived == "revived"


def test_an_engine_that_answers_now_and_then_does_not_hang():
    async def script(engine):
        for turn in range(300):
            engine.hangs = turn % 7 != 0
            await asyncio.sleep(0)

    assert supervised(script, hang_s=60.0) == []


def test_nobody_asks_where_engines_may_hang():
    async def script(engine):
        engine.hangs = True
        await _some_turns()
        assert not engine.asked

    assert supervised(script, hang_s=None) == []
