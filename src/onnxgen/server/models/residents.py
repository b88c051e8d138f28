"""`Residents`: loads, keeps and unloads the models of a table within its limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from onnxgen.errors import OnnxgenError
from onnxgen.server.errors import ApiError, unavailable
from onnxgen.server.models.engine_care import EngineCare, end_tasks
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.limits import TableLimits, fits, least_recently_used
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.place import Place
from onnxgen.server.models.refusals import load_refusal
from onnxgen.server.models.states import ModelState
from onnxgen.server.models.warm_up import warm_up

Loader = Callable[[ModelEntry], Awaitable[LoadedModel]]
"""Loads a model while the loop goes on, or raises why it cannot be."""

_log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S, _DOUBLINGS = 1.0, 60.0, 10
_LOOK_S = 5.0
"""How often memory is measured."""


class Residents:
    """Who of a table's models is in memory, and what becomes of them. For one event loop.

    ::

        UNLOADED ──> LOADING ──> READY ──> UNLOADING ──> UNLOADED
            ^           │        │   ^
            │           v        v   │
        (request) <── FAILED   RESTARTING

    Models are loaded one after another, so that what each one takes can be measured.

    Args:
        places: All of them.
        load: Loads one.
        limits: How much may be in memory.
        wait_s: How long a model waits for room.
        hang_s: See `supervise`.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.
        tidy: Is called in a thread when a model was loaded or let go.

    Attributes:
        limits: As given; may be changed with `change_limits`.
        is_closing: Nothing is loaded any more.
        care: Looks after engines.
    """

    def __init__(
        self,
        places: Iterable[Place],
        *,
        load: Loader,
        limits: TableLimits,
        wait_s: float,
        hang_s: float | None,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        tidy: Callable[[], None],
    ) -> None:
        self._places = {place.entry.id: place for place in places}
        self._load_model, self.limits, self._wait_s = load, limits, wait_s
        self._clock, self._tidy = clock, tidy
        self.care = EngineCare(hang_s=hang_s, clock=clock, sleep=sleep, when_ready=self._begin_expiry)
        self._one_load = asyncio.Lock()
        self._room, self._look = asyncio.Event(), asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self.is_closing = False

    def start(self) -> None:
        """Begin to look after memory."""
        self._looking = asyncio.create_task(self._look_after_memory())

    async def aclose(self) -> None:
        """Unload everything. Calling it twice is harmless."""
        self.is_closing = True
        places = self._places.values()
        unloading = [p.change for p in places if p.state is ModelState.UNLOADING and p.change is not None]
        loading = [p.change for p in places if p.state is ModelState.LOADING and p.change is not None]
        watching = [task for task in (self._looking, *(p.supervision for p in places)) if task is not None]
        await end_tasks([*loading, *watching])
        await asyncio.gather(*unloading)
        models = [place.model for place in places if place.model is not None]
        for place in places:
            place.stop_timers()
            place.state, place.model = ModelState.UNLOADED, None
        await asyncio.gather(*(asyncio.to_thread(model.close) for model in models))

    def change_limits(self, limits: TableLimits) -> None:
        """Change limits. What is over them is unloaded soon."""
        self.limits = limits
        for place in self._places.values():
            if place.state is ModelState.READY:
                self._begin_expiry(place)
        self._room.set()
        self._look.set()

    def claim(self, place: Place) -> None:
        """Somebody asks for a model, which is not unloaded to make room until `release`."""
        place.uses += 1
        place.last_used = self._clock()
        if place.state is not ModelState.FAILED:  # else it is tried again, whoever asks meanwhile
            place.stop_timers()

    def release(self, place: Place) -> None:
        """Somebody does not need a model any more."""
        place.uses -= 1
        place.last_used = self._clock()
        if not place.uses:
            self._room.set()
            if place.state is ModelState.READY:
                self._begin_expiry(place)

    def begin_load(self, place: Place) -> asyncio.Task[None]:
        """Load a model, unless it changes already. The task raises nothing; the place says how it went."""
        if place.change is not None:
            return place.change
        place.stop_timers()
        return _begin(place, ModelState.LOADING, self._load(place))

    def begin_unload(self, place: Place) -> asyncio.Task[None]:
        """Unload a model that is loaded and does not change."""
        assert place.change is None
        assert place.model is not None
        place.stop_timers()
        return _begin(place, ModelState.UNLOADING, self._unload(place))

    async def _load(self, place: Place) -> None:
        try:
            async with self._one_load:
                await self._make_room(place)
                started = self._clock()
                model = await self._load_model(place.entry)
                place.model = model  # from here on aclose sees it
                if place.entry.warm_up:
                    await warm_up(model)
                await asyncio.to_thread(self._tidy)
                _log.info("loaded %s in %.1f s", place.entry.id, self._clock() - started)
        except asyncio.CancelledError:
            await self._let_go(place)
            raise
        except Exception as failure:  # noqa: BLE001 - told to those who wait, and in the log
            await self._let_go(place)
            self._note_failure(place, failure)
            return
        place.state = ModelState.READY
        place.failures, place.refusal, place.error, place.restarts = 0, None, None, 0
        place.known_context = model.context_length
        place.measure()
        if model.llm is not None and not self.is_closing:
            self.care.begin(place, model.llm)
        self._begin_expiry(place)
        self._look.set()

    async def _unload(self, place: Place) -> None:
        await self.care.end(place)
        place.measure()
        await self._let_go(place)
        place.state = ModelState.UNLOADED
        self._room.set()
        _log.info("unloaded %s", place.entry.id)

    async def _let_go(self, place: Place) -> None:
        model, place.model = place.model, None
        if model is not None:
            await asyncio.shield(asyncio.to_thread(model.close))
            del model
            await asyncio.shield(asyncio.to_thread(self._tidy))

    def _note_failure(self, place: Place, failure: Exception) -> None:
        place.refusal = load_refusal(place.entry, failure)
        place.error = str(failure)[:2000]
        place.state = ModelState.FAILED
        pause = min(_FIRST_RETRY_S * 2 ** min(place.failures, _DOUBLINGS), _LONGEST_RETRY_S)
        place.failures += 1
        place.retry_at = self._clock() + pause
        if place.entry.preload and not self.is_closing:
            # nobody may ask for it while the server says that it is unhealthy
            place.timer = asyncio.get_running_loop().call_later(pause, self._retry, place)
        if isinstance(failure, OnnxgenError | ApiError):
            _log.error("%s cannot be loaded: %s", place.entry.id, failure)
        else:
            _log.error("%s cannot be loaded", place.entry.id, exc_info=failure)

    async def _make_room(self, newcomer: Place) -> None:
        """Unload what is idle until a model fits; wait for requests to end where nothing is.

        Raises:
            ApiError: There is no room in time.
        """
        end = self._clock() + self._wait_s
        size = newcomer.measure()
        while True:
            self._room.clear()
            held = {p.entry.id: p.held() for p in self._places.values() if p.is_held}
            if fits(held.values(), self.limits, newcomer_bytes=size):
                return
            oldest = least_recently_used(held.values())
            if oldest is not None:
                await asyncio.shield(self.begin_unload(self._places[oldest.id]))
                continue
            left = end - self._clock()
            try:
                async with asyncio.timeout(max(left, 0)):
                    await self._room.wait()
            except TimeoutError as cause:
                raise unavailable(
                    f"there is no room for the model {newcomer.entry.id!r}: others are in use; ask again",
                    code="no_room",
                    retry_after_s=10,
                ) from cause

    async def _look_after_memory(self) -> None:
        """Unload idle models while there are more than limits allow: they grow while they are used."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._look.wait()
            self._look.clear()
            while (place := self._surplus()) is not None:
                await asyncio.shield(self.begin_unload(place))

    def _surplus(self) -> Place | None:
        held = [p.held() for p in self._places.values() if p.is_held]
        if fits(held, self.limits):
            return None
        oldest = least_recently_used(held)
        return None if oldest is None else self._places[oldest.id]

    def _begin_expiry(self, place: Place) -> None:
        own = place.entry.keep_alive_s
        keep_alive_s = self.limits.keep_alive_s if own is None else own
        place.stop_timers()
        if keep_alive_s is not None and not place.uses:
            loop = asyncio.get_running_loop()
            # Not zero: what uvloop then gives does not say when it is due.
            place.timer = loop.call_later(max(keep_alive_s, 0.001), self._expire, place)

    def _retry(self, place: Place) -> None:
        place.timer = None
        if place.state is ModelState.FAILED and not self.is_closing:
            self.begin_load(place)

    def _expire(self, place: Place) -> None:
        place.timer = None
        if place.state is ModelState.READY and not place.uses and not self.is_closing:
            self.begin_unload(place)


def _begin(place: Place, state: ModelState, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
    """Change a place's state for as long as some work takes."""

    async def change() -> None:
        try:
            await work
        finally:
            ended()

    def ended() -> None:
        place.change = None
        if place.state is state:  # the work was cancelled
            place.state = ModelState.UNLOADED

    def never_began(task: asyncio.Task[None]) -> None:
        work.close()
        if place.change is task:
            ended()

    place.state = state
    place.change = asyncio.create_task(change())
    place.change.add_done_callback(never_began)
    return place.change
