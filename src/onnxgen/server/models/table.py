"""`ModelTable`: the models of a server, which are loaded, kept, restarted and unloaded as they are needed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.errors import ApiError, ending, unavailable
from onnxgen.server.models.engine_care import end_tasks
from onnxgen.server.models.entry import ModelEntry
from onnxgen.server.models.limits import TableLimits
from onnxgen.server.models.loaded import LoadedModel
from onnxgen.server.models.place import Place
from onnxgen.server.models.refusals import was_unloaded
from onnxgen.server.models.residents import Loader, Residents
from onnxgen.server.models.states import ModelState, ModelStatus, TableHealth
from onnxgen.server.models.warm_up import warm_up


class ModelTable:
    """The models of a server. For one event loop.

    A request's model is found by name here and nowhere else. It is loaded if need be, which all requests that ask for it
    meanwhile share, and is not unloaded while one uses it. Models are loaded one after another.

    Args:
        entries: What there is, the first of them for requests that name none.
        load: Loads one.
        limits: How much may be in memory.
        wait_s: How long a request waits for a model that is being loaded, or for room for it.
        hang_s: An engine that answers nothing for so long is made anew; None: only one that dies is.
        clock: Seconds from any beginning.
        sleep: Waits for so many seconds.
        tidy: Is called in a thread when a model was loaded or let go.

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
        hang_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tidy: Callable[[], None] = lambda: None,
    ) -> None:
        self._places = {entry.id: Place(entry) for entry in entries}
        self._by_name: dict[str, Place] = {}
        for place in self._places.values():
            for name in place.entry.names:
                if name in self._by_name:
                    raise ConfigError(f"two models are called {name!r}; ids and aliases must be told apart")
                self._by_name[name] = place
        if not self._places:
            raise ConfigError("there is no model to serve")
        self._wait_s, self._clock = wait_s, clock
        self._residents = Residents(
            self._places.values(),
            load=load,
            limits=limits or TableLimits(),
            wait_s=wait_s,
            hang_s=hang_s,
            clock=clock,
            sleep=sleep,
            tidy=tidy,
        )
        self._preloading: list[asyncio.Task[None]] = []

    @property
    def entries(self) -> tuple[ModelEntry, ...]:
        """What there is."""
        return tuple(place.entry for place in self._places.values())

    async def start(self) -> None:
        """Begin to load what is to be there from the beginning, as far as there is room; `preloaded` waits for it."""
        self._residents.start()
        self._preloading = [self._residents.begin_load(place) for place in self._first()]

    async def preloaded(self) -> None:
        """Wait until everything that is to be there from the beginning was loaded.

        Raises:
            ApiError: None of it can be.
        """
        if self._preloading:
            await asyncio.wait(self._preloading)
        tried = self._first()
        failed = [place.refusal for place in tried if place.state is ModelState.FAILED]
        if failed and failed[0] is not None and len(failed) == len(tried):
            raise failed[0]

    async def aclose(self) -> None:
        """Unload everything; requests end with an error. Calling it twice is harmless."""
        await self._residents.aclose()

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
        self._residents.claim(place)
        try:
            yield await self._ready(place)
        finally:
            self._residents.release(place)

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
        if place.uses:
            place.evictions += 1
        while place.state is ModelState.LOADING and place.change is not None:
            await end_tasks([place.change])
        if place.change is not None:
            await asyncio.wait([place.change])
        if place.model is not None:
            await asyncio.shield(self._residents.begin_unload(place))
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
            ApiError: As `use`; or it was unloaded meanwhile.
            OnnxgenError: It cannot be made; it is tried again.
        """
        place = self._find(name)
        async with self.use(name) as model:
            await self._residents.care.restart(place, model.text)
        return self._status(place)

    @property
    def limits(self) -> TableLimits:
        """How much may be in memory."""
        return self._residents.limits

    def set_limits(self, limits: TableLimits) -> None:
        """Change limits. What is over them is unloaded soon."""
        self._residents.change_limits(limits)

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

    def _first(self) -> list[Place]:
        """Those that are loaded at the beginning: no more than may be there at once."""
        return [place for place in self._places.values() if place.entry.preload][: self.limits.max_loaded]

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
        end, evictions = self._clock() + self._wait_s, place.evictions
        while True:
            if self._residents.is_closing:
                raise ending()
            if place.evictions != evictions:
                raise was_unloaded(place.entry.id)
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
            change = place.change or self._residents.begin_load(place)
            left = end - self._clock()
            if left <= 0 or not (await asyncio.wait([change], timeout=left))[0]:
                raise unavailable(
                    f"the model {place.entry.id!r} is still being loaded; ask again",
                    code="model_loading",
                    retry_after_s=10,
                )


def _is_dead(place: Place) -> bool:
    """Whether an engine failed just now, which its supervision has not heard yet."""
    model = place.model
    return (
        place.state is ModelState.READY
        and model is not None
        and model.llm is not None
        and model.llm.health.reason is not None
    )


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
