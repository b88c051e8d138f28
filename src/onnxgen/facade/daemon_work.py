"""`in_daemon`: long work beside an event loop that must not keep the loop, or the process, from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_daemon(work: Callable[[], Result], *, discard: Callable[[Result], None]) -> Result:
    """What ``work`` gives, done in a thread of its own.

    `asyncio.to_thread` would not do: a loop that ends waits for the threads of its pool, and so would an interrupt.

    Args:
        work: What to do. It goes on when the task that waits is cancelled.
        discard: Is given a result that nobody waits for any more.

    Raises:
        Exception: What ``work`` raises.
    """
    done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    threading.Thread(target=_run, args=(work, done, discard), name="onnxgen-load", daemon=True).start()
    return await done


def _run(work: Callable[[], Result], done: asyncio.Future[Result], discard: Callable[[Result], None]) -> None:
    try:
        result = work()
    except Exception as failure:  # noqa: BLE001 - raised again where it is awaited
        _tell(done, lambda failure=failure: None if done.cancelled() else done.set_exception(failure))
        return
    if not _tell(done, lambda: discard(result) if done.cancelled() else done.set_result(result)):
        discard(result)


def _tell(done: asyncio.Future[Result], settle: Callable[[], None]) -> bool:
    """Settle it in its loop; False if that is closed."""
    try:
        done.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        return False
    return True
