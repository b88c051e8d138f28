"""`EngineLife`: what is pending with one engine, from its beginning to its end."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import RLock
from typing import Any

from onnxgen.engine.client.base import Health, HealthState, Listener
from onnxgen.engine.client.log_relay import write_log
from onnxgen.engine.client.messages import Answer, Ended, Logged, Progressed, Ready, Report, Stepped
from onnxgen.engine.client.progress_relay import ProgressReplay
from onnxgen.engine.events import EngineEvent
from onnxgen.errors import EngineDeadError, OnnxgenError, StateError
from onnxgen.foundations.progress import Progress

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A request whose samples have not all ended."""

    listener: Listener
    open: set[int]


class EngineLife:
    """What is pending with one engine: requests by number, and answers that somebody waits for.

    However the engine ends, every sample of every request ends once, and everybody who waits hears of it.
    May be used from any thread. Listeners are called one after another, so that nothing comes after an end.

    Args:
        numbers: Of requests and answers; shared by all lives of a client, so that none is met again.
        progress: Shows what the engine does before it is ready.

    Attributes:
        started: Done once the engine is ready; has the error if it never will be.
        ended: Done once the engine is no more and all who waited for it have heard so.
    """

    def __init__(self, numbers: Iterator[int], *, progress: Progress) -> None:
        self._numbers = numbers
        self._progress = ProgressReplay(progress)
        self._lock = RLock()  # a client may be collected, and end its life, anywhere, in here too
        self._telling = RLock()  # taken before the other
        self._health = Health(HealthState.STARTING)
        self._end: OnnxgenError | None = None
        self._pending: dict[int, _Pending] = {}
        self._answers: dict[int, Future[Any]] = {}
        self.started: Future[None] = Future()
        self.ended: Future[None] = Future()

    @property
    def health(self) -> Health:
        """How the engine is."""
        return self._health

    @property
    def was_ready(self) -> bool:
        """Whether the engine was made, so that it can be told something."""
        return self.started.done() and self.started.exception() is None

    @property
    def num_pending(self) -> int:
        """Requests that have not ended."""
        return len(self._pending)

    def expect_events(self, num_samples: int, listener: Listener) -> int:
        """Give a request that nobody waits for its number; its events go to ``listener``.

        Raises:
            EngineDeadError: The engine has failed.
            StateError: It was closed.
        """
        with self._lock:
            self._check()
            number = next(self._numbers)
            self._pending[number] = _Pending(listener, set(range(num_samples)))
        return number

    def expect_answer(
        self, *, num_samples: int = 0, listener: Listener | None = None
    ) -> tuple[int, Future[Any]]:
        """The number of a question, and where its answer will be; with a listener it is a request as well.

        Raises:
            EngineDeadError: The engine has failed.
            StateError: It was closed.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._check()
            number = next(self._numbers)
            self._answers[number] = future
            if listener is not None:
                self._pending[number] = _Pending(listener, set(range(num_samples)))
        return number, future

    def is_pending(self, request_id: int) -> bool:
        """Whether a request has samples that have not ended."""
        return request_id in self._pending

    def forget(self, request_id: int) -> None:
        """A request was never sent, or nobody wants it any more: nothing more is heard of it."""
        with self._lock:
            self._pending.pop(request_id, None)
            self._answers.pop(request_id, None)

    def receive(self, report: Report) -> None:
        """The engine reports something."""
        match report:
            case Stepped():
                self._deliver(report.events())
            case Answer(answer_to, value, error):
                self._resolve(answer_to, value, error)
            case Progressed():
                self._progress.show(report)
            case Logged():
                write_log(report)
            case Ready():
                self._become_healthy()
            case Ended(error):
                self.end(error or StateError("the engine was told to stop"))

    def end(self, error: OnnxgenError, *, closed: bool = False) -> None:
        """The engine is no more: end what is pending with this error; only the first time counts.

        Args:
            error: Why.
            closed: Because somebody closed it, not because it failed.
        """
        with self._telling:
            with self._lock:
                if self._end is not None:
                    return
                self._end = error
                self._health = (
                    Health(HealthState.CLOSED) if closed else Health(HealthState.FAILED, str(error))
                )
                pending, self._pending = self._pending, {}
                answers, self._answers = self._answers, {}
                if not self.started.done():
                    self.started.set_exception(error)
            self._tell_end(error, pending, answers)
        self.ended.set_result(None)

    def _tell_end(
        self, error: OnnxgenError, pending: dict[int, _Pending], answers: dict[int, Future[Any]]
    ) -> None:
        self._progress.close()
        for future in answers.values():
            future.set_exception(error)
        lost = [
            (p.listener, EngineEvent(number, index, finish_reason="error", error=error))
            for number, p in pending.items()
            if number not in answers  # who waits for it hears of it there
            for index in sorted(p.open)
        ]
        _tell(lost)

    def _check(self) -> None:
        if self._end is None:
            return
        # a new object each time: tracebacks of several threads would gather on one
        if self._health.state is HealthState.FAILED:
            raise EngineDeadError(f"{self._end}; restart() makes a new one") from self._end
        raise StateError(str(self._end)) from self._end

    def _become_healthy(self) -> None:
        with self._lock:
            if self._end is not None:
                return
            self._health = Health(HealthState.HEALTHY)
            self.started.set_result(None)
        self._progress.close()

    def _resolve(self, number: int, value: Any, error: OnnxgenError | None) -> None:
        with self._lock:
            future = self._answers.pop(number, None)
            if error is not None:
                self._pending.pop(number, None)  # a request that was refused
        if future is None:
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _deliver(self, events: Sequence[EngineEvent]) -> None:
        with self._telling:
            with self._lock:
                heard = [
                    (listener, event) for event in events if (listener := self._listener(event)) is not None
                ]
            _tell(heard)

    def _listener(self, event: EngineEvent) -> Listener | None:
        """Who hears of an event; None if its request was forgotten, or ended with its engine."""
        pending = self._pending.get(event.request_id)
        if pending is None:
            return None
        if event.finish_reason is not None:
            pending.open.discard(event.index)
            if not pending.open:
                self._pending.pop(event.request_id, None)
        return pending.listener


def _tell(heard: Iterable[tuple[Listener, EngineEvent]]) -> None:
    """Call each listener once, with its events in order. One that raises is a mistake of its own, not the engine's."""
    batches: dict[Listener, list[EngineEvent]] = {}
    for listener, event in heard:
        batches.setdefault(listener, []).append(event)
    for listener, events in batches.items():
        try:
            listener(events)
        except Exception:  # noqa: BLE001 - whatever a caller's code raises
            _log.exception("a listener of engine events raised")
