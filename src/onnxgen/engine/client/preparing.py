"""`Preparing`: requests that take long to be made ready wait for that apart, and no step of others waits with them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from onnxgen.engine.client.messages import Cancel, Prepared, SealedSubmit, Submit
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.request import EngineRequest

_THREADS = 4
_REMEMBERED = 64
"""Grammars that are known to be ready, so that requests with them need no other thread."""


class Preparing:
    """Makes requests ready in threads of its own. For the thread that owns the core.

    Args:
        prepare: Makes a request ready, or raises why not; from any thread.
        tell: Is told when that is done, from another thread.
    """

    def __init__(self, prepare: Callable[[EngineRequest], None], tell: Callable[[Prepared], None]) -> None:
        self._prepare = prepare
        self._tell = tell
        self._threads: ThreadPoolExecutor | None = None
        self._ready: OrderedDict[Grammar, None] = OrderedDict()
        self._waiting: dict[int, tuple[EngineRequest, list[Cancel]]] = {}

    def needs(self, request: EngineRequest) -> bool:
        """Whether it may take long to make a request ready."""
        return request.grammar is not None and request.grammar not in self._ready

    def begin(self, command: Submit | SealedSubmit, request: EngineRequest) -> None:
        """Begin to make a request ready; ``tell`` hears of it."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="onnxgen-prepare")
        self._waiting[command.request_id] = request, []
        self._threads.submit(self._work, command, request)

    def is_under_way(self, request_id: int) -> bool:
        """Whether a request is being made ready, by the client's number."""
        return request_id in self._waiting

    def note(self, cancel: Cancel) -> None:
        """Keep for later that a sample of a request is not wanted any more."""
        self._waiting[cancel.request_id][1].append(cancel)

    def forget(self, request_id: int) -> tuple[EngineRequest, list[Cancel]]:
        """Nobody wants a request any more; gives it back, and what was noted of it."""
        return self._waiting.pop(request_id)

    def done(self, prepared: Prepared) -> list[Cancel] | None:
        """A request is ready, or cannot be: what was cancelled of it meanwhile; None: all of it."""
        if prepared.error is None and prepared.request.grammar is not None:
            self._ready[prepared.request.grammar] = None
            if len(self._ready) > _REMEMBERED:
                self._ready.popitem(last=False)
        waiting = self._waiting.pop(prepared.command.request_id, None)
        return None if waiting is None else waiting[1]

    def close(self) -> None:
        """Begin nothing more, and wait for nothing."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _work(self, command: Submit | SealedSubmit, request: EngineRequest) -> None:
        try:
            self._prepare(request)
        except Exception as error:  # noqa: BLE001 - told to who asked
            self._tell(Prepared(command, request, error))
        else:
            self._tell(Prepared(command, request))
