"""`supervise`: an engine that dies or hangs is made anew, again and again with longer pauses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from onnxgen.facade.async_llm import AsyncLLM

_log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0
"""An engine that lived so long did not die of how it began."""
_PROBE_S = 5.0
"""How often an engine is asked whether it is there, and how long one question waits."""


async def supervise(
    name: str,
    llm: AsyncLLM,
    *,
    when_dead: Callable[[str], None],
    revive: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    hang_s: float | None = None,
) -> None:
    """Make a model's engine anew whenever it dies or hangs, until the task is cancelled or the model closed.

    The first attempt comes at once, the next ones after pauses that grow to `LONGEST_PAUSE_S`; so does an engine's that
    died soon after it was made.

    Args:
        name: Of the model, for the log.
        llm: The model.
        when_dead: Is told why, as soon as it is dead and after each attempt that failed.
        revive: Makes the engine anew, and has everything that requests need; raises why it cannot be.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.
        hang_s: An engine that answers nothing for so long, not even between two steps, hangs; None: it may.
    """
    pause = 0.0
    while True:
        born = clock()
        reason = await _failure(llm, hang_s, clock=clock, sleep=sleep)
        when_dead(reason)
        if clock() - born >= STEADY_S:
            pause = 0.0
        _log.error("the engine of %s died: %s; it is made anew%s", name, reason, _after(pause))
        while True:
            await sleep(pause)
            pause = min(max(FIRST_PAUSE_S, 2 * pause), LONGEST_PAUSE_S)
            started = clock()
            try:
                await revive()
            except Exception as failure:  # noqa: BLE001 - whatever it is, the next attempt may do
                when_dead(str(failure))
                _log.error("the engine of %s cannot be made anew: %s; again%s", name, failure, _after(pause))
            else:
                break
        _log.warning("the engine of %s is back after %.1f s", name, clock() - started)


async def _failure(
    llm: AsyncLLM,
    hang_s: float | None,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> str:
    """Wait until an engine has died or hangs; returns what happened to it."""
    died = asyncio.ensure_future(llm.failure())
    if hang_s is None:
        return await died
    hangs = asyncio.ensure_future(_hanging(llm, hang_s, clock=clock, sleep=sleep))
    try:
        await asyncio.wait((died, hangs), return_when=asyncio.FIRST_COMPLETED)
        if not died.done() and hangs.exception() is None:
            return hangs.result()
        return await died  # who was asked and is dead says so a moment earlier
    finally:
        for each in (died, hangs):
            each.cancel()
            with contextlib.suppress(BaseException):
                await each


async def _hanging(
    llm: AsyncLLM,
    hang_s: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> str:
    answered = clock()
    while clock() - answered < hang_s:
        await sleep(_PROBE_S)
        # short questions: one that waits holds a thread, which nobody can take back
        with contextlib.suppress(TimeoutError):
            await llm.stats(timeout_s=_PROBE_S)
            answered = clock()
    return f"it did not answer for {clock() - answered:.0f} s"


def _after(pause: float) -> str:
    return f" in {pause:.1f} s" if pause else " at once"
