"""`supervise`: an engine that dies is made anew, again and again with longer pauses."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from onnxgen.facade.async_llm import AsyncLLM

_log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
STEADY_S = 60.0
"""An engine that lived so long did not die of how it began."""


async def supervise(
    name: str,
    llm: AsyncLLM,
    *,
    when_dead: Callable[[str], None],
    revive: Callable[[], Awaitable[None]],
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
) -> None:
    """Make a model's engine anew whenever it dies, until the task is cancelled or the model closed.

    The first attempt comes at once, the next ones after pauses that grow to `LONGEST_PAUSE_S`; so does an engine's that
    died soon after it was made.

    Args:
        name: Of the model, for the log.
        llm: The model.
        when_dead: Is told why, as soon as it is dead and after each attempt that failed.
        revive: Makes the engine anew, and has everything that requests need; raises why it cannot be.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.
    """
    pause = 0.0
    while True:
        born = clock()
        reason = await llm.failure()
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


def _after(pause: float) -> str:
    return f" in {pause:.1f} s" if pause else " at once"
