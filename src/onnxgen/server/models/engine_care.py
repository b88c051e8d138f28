"""`EngineCare`: looks after the engines of loaded models, and makes them anew when they die, or when somebody asks for it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.server.models.place import Place
from onnxgen.server.models.refusals import was_unloaded
from onnxgen.server.models.states import ModelState
from onnxgen.server.models.supervision import supervise
from onnxgen.server.models.warm_up import warm_up


class EngineCare:
    """Looks after engines, with one task for each. For one event loop.

    Args:
        hang_s: See `supervise`.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.
        when_ready: Is told of a model whose engine was made anew.
    """

    def __init__(
        self,
        *,
        hang_s: float | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        when_ready: Callable[[Place], None],
    ) -> None:
        self._hang_s, self._clock, self._sleep = hang_s, clock, sleep
        self._when_ready = when_ready

    def begin(self, place: Place, llm: AsyncLLM) -> None:
        """Look after the engine of a model that was loaded."""
        place.supervision = _task_of_its_own(self._look_after(place, llm))

    async def end(self, place: Place) -> None:
        """Look after a model's engine no longer."""
        if place.supervision is not None:
            await end_tasks([place.supervision])
            place.supervision = None

    async def restart(self, place: Place, llm: AsyncLLM) -> None:
        """Make the engine of a model anew that is ready.

        The task that looks after the engine does it, so that nothing else does it meanwhile, whoever stops waiting.

        Raises:
            OnnxgenError: It cannot be made; it is tried again.
            ApiError: The model was unloaded meanwhile.
        """
        place.state = ModelState.RESTARTING
        before, told = place.supervision, asyncio.get_running_loop().create_future()

        async def anew() -> None:
            try:
                if before is not None:
                    await end_tasks([before])
                await self._revive(place, llm)
            except Exception as failure:  # noqa: BLE001 - told to who asked; the engine counts as dead
                _tell(told, failure)
            else:
                _tell(told, None)
            await self._look_after(place, llm)

        place.supervision = _task_of_its_own(anew())
        place.supervision.add_done_callback(lambda _: _tell(told, was_unloaded(place.entry.id)))
        await told

    async def _look_after(self, place: Place, llm: AsyncLLM) -> None:
        def when_dead(reason: str) -> None:
            place.state, place.error = ModelState.RESTARTING, reason

        await supervise(
            place.entry.id,
            llm,
            when_dead=when_dead,
            revive=lambda: self._revive(place, llm),
            clock=self._clock,
            sleep=self._sleep,
            hang_s=self._hang_s,
        )

    async def _revive(self, place: Place, llm: AsyncLLM) -> None:
        place.state = ModelState.RESTARTING
        await llm.restart()
        for name, path in place.entry.adapters.items():
            await llm.load_adapter(path, name)
        if place.entry.warm_up and place.model is not None:
            await warm_up(place.model)
        place.restarts += 1
        place.state, place.error = ModelState.READY, None
        self._when_ready(place)


async def end_tasks(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def _task_of_its_own(work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """A task whose log lines are not of the request that began it."""
    return asyncio.create_task(work, context=contextvars.Context())


def _tell(waiting: asyncio.Future[None], failure: Exception | None) -> None:
    """Answer who waits, if that was not done and somebody does."""
    if waiting.done():
        return
    if failure is None:
        waiting.set_result(None)
    else:
        waiting.set_exception(failure)
