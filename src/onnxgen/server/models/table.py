"""`ModelTable`: the models of a server, which are loaded, kept, restarted and unloaded as they are needed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from onnxgen.errors import ConfigError, OnnxgenError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError, unavailable
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.limits import TableLimits, fits, least_recently_used
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.place import Place, context_of
from onnxgen.server.models.refusals import load_refusal
from onnxgen.server.models.states import ModelState, ModelStatus, TableHealth
from onnxgen.server.models.supervision import supervise
from onnxgen.server.models.warm_up import warm_up

Loader = Callable[[ModelEntry], Awaitable[LoadedModel]]
"""Loads a model while the loop goes on, or raises why it cannot be."""

_log = logging.getLogger(__name__)

_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_LOOK_S = 5.0
"""How often memory is measured where it is limited."""


class ModelTable:
    """The models of a server. For one event loop.

    A request's model is found by name here and nowhere else. It is loaded if need be, which all requests that ask for it
    meanwhile share, and is not unloaded while one uses it. Models are loaded one after another.

    Args:
        entries: What there is, the first of them for requests that name none.
        load: Loads one.
        limits: How much may be in memory.
        wait_s: How long a request waits for a model that is being loaded, or for room for it.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.

    Raises:
        ConfigError: There is no model, or two have a name in common.
    """

    def __init__(
        self,
        entries: Iterable[ModelEntry],
        *,
        load: Loader,
        limits: TableLimits | None = None,
        wait_s: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limits = limits or TableLimits()
        self._places = {entry.id: Place(entry) for entry in entries}
        self._by_name: dict[str, Place] = {}
        for place in self._places.values():
            for name in place.entry.names:
                if name in self._by_name:
                    raise ConfigError(f"two models are called {name!r}; ids and aliases must be told apart")
                self._by_name[name] = place
        if not self._places:
            raise ConfigError("there is no model to serve")
        self._load_model, self._wait_s = load, wait_s
        self._clock, self._sleep = clock, sleep
        self._one_load = asyncio.Lock()
        self._room, self._look = asyncio.Event(), asyncio.Event()
        self._preloading: list[asyncio.Task[None]] = []
        self._looking: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def entries(self) -> tuple[ModelEntry, ...]:
        """What there is."""
        return tuple(place.entry for place in self._places.values())

    async def start(self) -> None:
        """Begin to load what is to be there from the beginning; `preloaded` waits for it."""
        first = [place for place in self._places.values() if place.entry.preload]
        self._preloading = [self._begin_load(place) for place in first]
        self._looking = asyncio.create_task(self._look_after_memory())

    async def preloaded(self) -> None:
        """Wait until everything that is to be there from the beginning was loaded.

        Raises:
            ApiError: None of it can be.
        """
        if self._preloading:
            await asyncio.wait(self._preloading)
        tried = [place for place in self._places.values() if place.entry.preload]
        failed = [place.refusal for place in tried if place.state is ModelState.FAILED]
        if failed and failed[0] is not None and len(failed) == len(tried):
            raise failed[0]

    async def aclose(self) -> None:
        """Unload everything; requests end with an error. Calling it twice is harmless."""
        self._closing = True
        self._room.set()
        places = self._places.values()
        unloading = [p.change for p in places if p.state is ModelState.UNLOADING and p.change is not None]
        loading = [p.change for p in places if p.state is ModelState.LOADING and p.change is not None]
        watching = [task for task in (self._looking, *(p.supervision for p in places)) if task is not None]
        await _end([*loading, *watching])
        await asyncio.gather(*unloading)
        models = [place.model for place in self._places.values() if place.model is not None]
        for place in places:
            place.stop_timers()
            place.state, place.model = ModelState.UNLOADED, None
        await asyncio.gather(*(asyncio.to_thread(model.close) for model in models))

    def entry(self, name: str | None) -> ModelEntry:
        """What the operator says of a model.

        Args:
            name: An id or an alias; None: the first.

        Raises:
            ApiError: There is none of that name.
        """
        return self._find(name).entry

    @contextlib.asynccontextmanager
    async def use(self, name: str | None) -> AsyncGenerator[LoadedModel]:
        """A model, for a block in which it is not unloaded to make room. Loads it if need be.

        Args:
            name: An id or an alias; None: the first.

        Raises:
            ApiError: There is none of that name; it cannot be loaded, or not in time; its engine is being restarted.
        """
        place = self._find(name)
        place.uses += 1
        place.last_used = self._clock()
        place.stop_timers()
        try:
            yield await self._ready(place)
        finally:
            self._release(place)

    async def load(self, name: str | None) -> ModelStatus:
        """Load a model if it is not, and wait until it is.

        Raises:
            ApiError: As `use`.
        """
        place = self._find(name)
        place.retry_at = 0.0  # who asks for it by hand has perhaps mended it
        async with self.use(name):
            pass
        return self._status(place)

    async def unload(self, name: str | None, *, force: bool = False) -> ModelStatus:
        """Unload a model; the next request for it loads it again.

        Args:
            name: An id or an alias.
            force: Requests that use it end with an error.

        Raises:
            ApiError: It is in use, and ``force`` is False; or there is none of that name.
        """
        place = self._find(name)
        if place.uses and not force:
            raise ApiError(
                409,
                f"{place.uses} requests use the model {place.entry.id!r}; ask again later, or with force",
                code="model_in_use",
            )
        while place.state is ModelState.LOADING and place.change is not None:
            await _end([place.change])
        if place.change is not None:
            await asyncio.wait([place.change])
        if place.model is not None:
            await asyncio.shield(self._begin_unload(place))
        return self._status(place)

    async def warm_up(self, name: str | None) -> ModelStatus:
        """Let a model answer once, so that everything is ready for the next one.

        Raises:
            ApiError: As `use`.
            OnnxgenError: It failed.
        """
        place = self._find(name)
        async with self.use(name) as model:
            await warm_up(model)
        return self._status(place)

    async def restart(self, name: str | None) -> ModelStatus:
        """Make a model's engine anew; its requests end with an error.

        Raises:
            ApiError: As `use`.
            OnnxgenError: It cannot be made.
        """
        place = self._find(name)
        async with self.use(name) as model:
            llm = model.text
            if place.supervision is not None:
                await _end([place.supervision])
            try:
                await self._revive(place, llm)
            finally:
                self._begin_supervision(place, llm)
        return self._status(place)

    def set_limits(self, limits: TableLimits) -> None:
        """Change limits. What is over them is unloaded soon."""
        self.limits = limits
        for place in self._places.values():
            if place.state is ModelState.READY:
                place.stop_timers()
                self._begin_expiry(place)
        self._room.set()
        self._look.set()

    def status(self, name: str | None) -> ModelStatus:
        """How a model is.

        Raises:
            ApiError: There is none of that name.
        """
        return self._status(self._find(name))

    def statuses(self) -> list[ModelStatus]:
        """How all models are."""
        return [self._status(place) for place in self._places.values()]

    def loaded(self) -> list[LoadedModel]:
        """What is in memory and works, without loading or keeping it."""
        return [p.model for p in self._places.values() if p.model is not None and p.state is ModelState.READY]

    @property
    def health(self) -> TableHealth:
        """Whether the server can answer."""
        states = {id: place.state for id, place in self._places.items()}
        for place in self._places.values():
            if place.state is ModelState.RESTARTING or _is_dead(place):
                reason = f"the engine of {place.entry.id!r} failed and is being made anew"
                return TableHealth("unhealthy", reason, states)
        if any(not task.done() for task in self._preloading):
            return TableHealth("loading", "models are being loaded", states)
        if not any(_may_answer(place) for place in self._places.values()):
            return TableHealth("unhealthy", "no model can be loaded; the server's log says why", states)
        return TableHealth("ok", None, states)

    def _find(self, name: str | None) -> Place:
        if name is None:
            return next(iter(self._places.values()))
        place = self._by_name.get(name)
        if place is None:
            raise ApiError(
                404,
                f"the model {name[:100]!r} does not exist{did_you_mean(name[:100], self._by_name)}; /v1/models lists what there is",
                code="model_not_found",
                param="model",
            )
        return place

    def _status(self, place: Place) -> ModelStatus:
        return place.status(now=asyncio.get_running_loop().time())

    async def _ready(self, place: Place) -> LoadedModel:
        """A model that its caller has claimed, once it can be used."""
        end = self._clock() + self._wait_s
        while True:
            if self._closing:
                raise unavailable("the server is ending", code="draining")
            if place.state is ModelState.RESTARTING or _is_dead(place):
                raise unavailable(
                    f"the engine of {place.entry.id!r} failed and is being made anew; ask again",
                    code="engine_failed",
                    retry_after_s=2,
                )
            if place.state is ModelState.READY and place.model is not None:
                return place.model
            if place.state is ModelState.FAILED and place.refusal is not None:
                wait_s = place.retry_at - self._clock()
                if wait_s > 0:
                    raise _again(place.refusal, wait_s)
            change = place.change or self._begin_load(place)
            left = end - self._clock()
            if left <= 0 or not (await asyncio.wait([change], timeout=left))[0]:
                raise unavailable(
                    f"the model {place.entry.id!r} is still being loaded; ask again",
                    code="model_loading",
                    retry_after_s=10,
                )

    def _release(self, place: Place) -> None:
        place.uses -= 1
        place.last_used = self._clock()
        if not place.uses:
            self._room.set()
            self._begin_expiry(place)

    def _begin_load(self, place: Place) -> asyncio.Task[None]:
        if place.change is None:
            place.state = ModelState.LOADING
            place.change = asyncio.create_task(self._load(place))
            place.change.add_done_callback(lambda _: _changed(place))
            place.stop_timers()
        return place.change

    def _begin_unload(self, place: Place) -> asyncio.Task[None]:
        assert place.change is None
        place.state = ModelState.UNLOADING
        place.change = asyncio.create_task(self._unload(place))
        place.change.add_done_callback(lambda _: _changed(place))
        return place.change

    async def _load(self, place: Place) -> None:
        try:
            async with self._one_load:
                await self._make_room(place)
                started = self._clock()
                model = await self._load_model(place.entry)
                place.model = model  # from here on aclose sees it
                if place.entry.warm_up:
                    await warm_up(model)
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
        place.known_context = context_of(model)
        place.measure()
        if model.llm is not None:
            self._begin_supervision(place, model.llm)
        self._begin_expiry(place)
        self._look.set()

    async def _unload(self, place: Place) -> None:
        place.stop_timers()
        if place.supervision is not None:
            await _end([place.supervision])
            place.supervision = None
        place.measure()
        await self._let_go(place)
        place.state = ModelState.UNLOADED
        self._room.set()
        _log.info("unloaded %s", place.entry.id)

    async def _let_go(self, place: Place) -> None:
        model, place.model = place.model, None
        if model is not None:
            await asyncio.shield(asyncio.to_thread(model.close))

    def _note_failure(self, place: Place, failure: Exception) -> None:
        place.refusal = load_refusal(place.entry, failure)
        place.error = str(failure)[:2000]
        place.state = ModelState.FAILED
        pause = min(_FIRST_RETRY_S * 2**place.failures, _LONGEST_RETRY_S)
        place.failures += 1
        place.retry_at = self._clock() + pause
        if (
            place.entry.preload and not self._closing
        ):  # the others are tried again when somebody asks for them
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
                await asyncio.shield(self._begin_unload(self._places[oldest.id]))
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
                await asyncio.shield(self._begin_unload(place))

    def _surplus(self) -> Place | None:
        held = [p.held() for p in self._places.values() if p.is_held]
        if fits(held, self.limits):
            return None
        oldest = least_recently_used(held)
        return None if oldest is None else self._places[oldest.id]

    def _begin_expiry(self, place: Place) -> None:
        own = place.entry.keep_alive_s
        keep_alive_s = self.limits.keep_alive_s if own is None else own
        if keep_alive_s is not None and place.state is ModelState.READY and not place.uses:
            loop = asyncio.get_running_loop()
            place.timer = loop.call_later(keep_alive_s, self._expire, place)

    def _retry(self, place: Place) -> None:
        place.timer = None
        if place.state is ModelState.FAILED and not self._closing:
            self._begin_load(place)

    def _expire(self, place: Place) -> None:
        place.timer = None
        if place.state is ModelState.READY and not place.uses and not self._closing:
            self._begin_unload(place)

    def _begin_supervision(self, place: Place, llm: AsyncLLM) -> None:
        def when_dead(reason: str) -> None:
            place.state, place.error = ModelState.RESTARTING, reason

        async def revive() -> None:
            await self._revive(place, llm)

        place.supervision = asyncio.create_task(
            supervise(
                place.entry.id, llm, when_dead=when_dead, revive=revive, clock=self._clock, sleep=self._sleep
            )
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


def _is_dead(place: Place) -> bool:
    """Whether an engine failed just now, which its supervision has not heard yet."""
    model = place.model
    return (
        place.state is ModelState.READY
        and model is not None
        and model.llm is not None
        and model.llm.health.reason is not None
    )


def _changed(place: Place) -> None:
    place.change = None
    if place.state in (ModelState.LOADING, ModelState.UNLOADING):  # it was cancelled
        place.state = ModelState.UNLOADED


def _may_answer(place: Place) -> bool:
    """Whether a request for a model has a chance, for all that is known."""
    return place.state is not ModelState.FAILED and not (place.state is ModelState.LOADING and place.failures)


def _again(refusal: ApiError, wait_s: float) -> ApiError:
    """The same refusal, as an object of its own, with the time after which it makes sense to ask again."""
    return ApiError(
        refusal.status,
        refusal.message,
        type=refusal.type,
        code=refusal.code,
        headers={"Retry-After": str(max(1, math.ceil(wait_s)))},
    )


async def _end(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    waiting = list(tasks)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
