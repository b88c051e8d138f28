"""`serve`: the engine's side of a client, in whatever thread owns the core."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

from onnxgen.engine.client.base import Core, Recipe
from onnxgen.engine.client.messages import (
    Answer,
    Ask,
    AskStats,
    AskView,
    Cancel,
    Command,
    Ended,
    LoadAdapter,
    Prepared,
    Ready,
    Reconfigure,
    Report,
    SealedSubmit,
    Stepped,
    Stop,
    Submit,
    UnloadAdapter,
    scores_of,
)
from onnxgen.engine.client.portable import portable
from onnxgen.engine.client.preparing import Preparing
from onnxgen.engine.events import EngineEvent, TokenUsage
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import EngineDeadError, OnnxgenError

_told = attrgetter("token_id", "is_eos", "finish_reason", "usage")


def serve(recipe: Recipe, commands: SimpleQueue[Command], report: Callable[[Report], None]) -> None:
    """Make a core, serve commands until one says stop, close it. Never raises what the core raises: it reports it.

    Args:
        recipe: Makes the core.
        commands: What callers want; sleeps on it while there is nothing to do.
        report: Is told what happens.
    """
    error: OnnxgenError | None = None
    ready = False
    try:
        with recipe() as core:
            ready = True
            report(Ready())
            try:
                with contextlib.closing(Preparing(core.prepare, commands.put)) as preparing:
                    _Server(core, report, preparing).run(commands)
            except BaseException as failure:  # noqa: BLE001 - told to who waits
                # told before the core is closed: closing what is broken may take its time
                error = _death(failure, "failed")
                report(Ended(error))
    except BaseException as failure:  # noqa: BLE001 - told to who waits
        late = _death(failure, "failed while it was closed") if ready else _load_error(failure)
        error = error or late
    report(Ended(error))


class _Server:
    """Turns commands into calls and what a step says into reports.

    The core's numbers of requests and the client's differ: a client outlives its cores.
    """

    def __init__(self, core: Core, report: Callable[[Report], None], preparing: Preparing) -> None:
        self._core = core
        self._report = report
        self._preparing = preparing
        self._numbers: dict[int, int] = {}  # client's by core's
        self._ours: dict[int, int] = {}  # core's by client's
        self._open: dict[int, int] = {}  # samples that have not ended, by the core's number

    def run(self, commands: SimpleQueue[Command]) -> None:
        while True:
            pending = [] if self._core.has_work else [commands.get()]
            while not commands.empty():
                pending.append(commands.get())
            for command in pending:
                if isinstance(command, Stop):
                    return
                self._do(command)
            events = self._core.step()
            if events:
                scores = {at: score for at, event in enumerate(events) if (score := scores_of(event))}
                self._report(Stepped([self._row(event) for event in events], scores))

    def _do(self, command: Submit | SealedSubmit | Prepared | Cancel | Ask) -> None:
        match command:
            case Submit() | SealedSubmit():
                self._take(command)
            case Prepared():
                self._go_on(command)
            case Cancel():
                self._cancel(command)
            case AskStats(answer_to):
                self._answer(answer_to, self._core.stats)
            case AskView(answer_to, steps, prefixes):
                self._answer(answer_to, lambda: self._core.view(steps=steps, prefixes=prefixes))
            case Reconfigure(answer_to, config):
                self._answer(answer_to, lambda: self._core.reconfigure(config))
            case LoadAdapter(answer_to, adapter):
                self._answer(answer_to, lambda: self._core.load_adapter(adapter))
            case UnloadAdapter(answer_to, name):
                self._answer(answer_to, lambda: self._core.unload_adapter(name))

    def _take(self, command: Submit | SealedSubmit) -> None:
        try:
            request = command.read()
        except Exception as refusal:  # noqa: BLE001 - told to who asked; the engine goes on
            self._refuse(command, refusal)
            return
        if self._preparing.needs(request):
            self._preparing.begin(command, request)
        else:
            self._submit(command, request)

    def _go_on(self, prepared: Prepared) -> None:
        """A request is ready, or cannot be."""
        cancels = self._preparing.done(prepared)
        if cancels is None:
            return
        if prepared.error is not None:
            self._refuse(prepared.command, prepared.error)
            return
        self._submit(prepared.command, prepared.request)
        for cancel in cancels:
            self._cancel(cancel)

    def _cancel(self, cancel: Cancel) -> None:
        request_id, index, reason = cancel.request_id, cancel.index, cancel.reason
        if request_id in self._ours:
            self._core.cancel(self._ours[request_id], index=index, reason=reason)
        elif self._preparing.is_under_way(request_id):
            if index is None:
                self._end_early(cancel)
            else:
                self._preparing.note(cancel)

    def _end_early(self, cancel: Cancel) -> None:
        """End a request that the core has not seen yet."""
        request, before = self._preparing.forget(cancel.request_id)
        reasons = {one.index: one.reason for one in before}
        usage = TokenUsage(len(request.prompt), 0, 0)
        ends = [
            (cancel.request_id, i, None, False, reasons.get(i, cancel.reason), usage, None)
            for i in range(request.n)
        ]
        self._report(Stepped(ends))

    def _refuse(self, command: Submit | SealedSubmit, refusal: Exception) -> None:
        error = portable(refusal)
        if command.wants_answer:
            self._report(Answer(command.request_id, error=error))
            return
        samples = range(command.num_samples)
        self._report(Stepped([(command.request_id, i, None, False, "error", None, error) for i in samples]))

    def _submit(self, command: Submit | SealedSubmit, request: EngineRequest) -> None:
        try:
            number = self._core.submit(request)
        except Exception as refusal:  # noqa: BLE001 - as above
            self._refuse(command, refusal)
            return
        self._numbers[number] = command.request_id
        self._ours[command.request_id] = number
        self._open[number] = command.num_samples
        if command.wants_answer:
            self._report(Answer(command.request_id))

    def _answer(self, answer_to: int, call: Callable[[], Any]) -> None:
        try:
            answer = Answer(answer_to, call())
        except Exception as failure:  # noqa: BLE001 - as above
            answer = Answer(answer_to, error=portable(failure))
        self._report(answer)

    def _row(self, event: EngineEvent) -> tuple[Any, ...]:
        number = event.request_id
        error = None if event.error is None else portable(event.error)
        row = (self._numbers[number], event.index, *_told(event), error)
        if event.finish_reason is not None:
            self._open[number] -= 1
            if not self._open[number]:
                del self._open[number], self._ours[self._numbers.pop(number)]
        return row


def _load_error(failure: BaseException) -> OnnxgenError:
    return portable(failure) if isinstance(failure, OnnxgenError) else _death(failure, "could not be made")


def _death(failure: BaseException, what: str) -> OnnxgenError:
    error = EngineDeadError(f"the engine {what}: {type(failure).__name__}: {failure}")
    error.__cause__ = failure
    return error
