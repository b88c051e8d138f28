"""`serve`: the engine's side of a client, in whatever thread owns the core."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from queue import SimpleQueue
from typing import Any

from onnxgen.engine.client.base import Core, Recipe
from onnxgen.engine.client.messages import (
    Answer,
    Ask,
    AskStats,
    Cancel,
    Command,
    Ended,
    LoadAdapter,
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
from onnxgen.engine.events import EngineEvent
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
                _Server(core, report).run(commands)
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

    def __init__(self, core: Core, report: Callable[[Report], None]) -> None:
        self._core = core
        self._report = report
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

    def _do(self, command: Submit | SealedSubmit | Cancel | Ask) -> None:
        match command:
            case Submit() | SealedSubmit():
                self._submit(command)
            case Cancel(request_id, index, reason):
                if request_id in self._ours:
                    self._core.cancel(self._ours[request_id], index=index, reason=reason)
            case AskStats(answer_to):
                self._answer(answer_to, self._core.stats)
            case Reconfigure(answer_to, config):
                self._answer(answer_to, lambda: self._core.reconfigure(config))
            case LoadAdapter(answer_to, adapter):
                self._answer(answer_to, lambda: self._core.load_adapter(adapter))
            case UnloadAdapter(answer_to, name):
                self._answer(answer_to, lambda: self._core.unload_adapter(name))

    def _submit(self, command: Submit | SealedSubmit) -> None:
        try:
            number = self._core.submit(command.read())
        except Exception as refusal:  # noqa: BLE001 - told to who asked; the engine goes on
            error = portable(refusal)
            if command.wants_answer:
                self._report(Answer(command.request_id, error=error))
                return
            samples = range(command.num_samples)
            self._report(
                Stepped([(command.request_id, i, None, False, "error", None, error) for i in samples])
            )
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
