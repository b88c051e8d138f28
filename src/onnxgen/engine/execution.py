"""Runs a planned step: all of it at once, or, when that fails, one sequence after the other.

A step that raises has changed no sequence. Which request made it raise is found by running the sequences alone:
those that succeed are committed as if nothing had happened, those that raise again are at fault. So a failure that
does not happen again costs nobody anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, BlockCopy, KVCache, SequenceInput, Step, pack_step
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracing import trace_commit, trace_restart
from onnxgen.errors import BackendError, OnnxgenError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.reservation import Reservation
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.plan import Slice, StepPlan

_log = logging.getLogger(__name__)

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of a step.

    Attributes:
        finished: The slices that reached the end of their sequence, and so have logits.
        logits: float32 ``[finished, vocab]``.
        all_logits: The slices of which all logits were wanted, and these, float32 ``[tokens, vocab]``.
        faults: Jobs whose part failed, and why.
        failed: Whether the step as a whole raised.
        execute_s: Seconds spent in the backend.
    """

    finished: Sequence[Slice]
    logits: Float32Array
    all_logits: Sequence[tuple[Slice, Float32Array]]
    faults: Sequence[tuple[Job, OnnxgenError]]
    failed: bool
    execute_s: float


class Executor:
    """Executes plans on one backend and one cache.

    Args:
        backend: Runs the steps.
        cache: Holds the blocks that plans name.
        blocks: Whose blocks they are; asked only for the trace.
        trace: Told of every step; None: nobody is.
    """

    def __init__(
        self, backend: Backend, cache: KVCache, *, blocks: CacheManager, trace: EngineTrace | None
    ) -> None:
        self._backend = backend
        self._cache = cache
        self._blocks = blocks
        self._trace = trace

    def run(self, plan: StepPlan) -> Executed:
        """Execute a plan, and commit or roll back every part of its reservation."""
        started = time.perf_counter()
        computed, faults = plan.slices, list[tuple[Slice, Exception]]()
        try:
            try:
                rows = self._execute(plan.slices, plan.reservation)
                failed = False
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, only the request at fault ends
                _log.warning(
                    "a step of %d sequences failed (%s), running them one by one", len(plan.slices), error
                )
                computed, rows, faults = self._one_by_one(plan)
                failed = True
        except BaseException:
            for part in plan.slices:
                self._interrupt(part, plan.reservation)
            raise
        executed_s = time.perf_counter() - started
        at_fault = {part.job.id for part, _ in faults}
        for part in plan.slices:
            if part.job.id in at_fault:
                self._roll_back(part, plan.reservation)
            else:
                self._commit(part, plan.reservation)
        causes = [(part.job, as_onnxgen_error(cause)) for part, cause in faults]
        finished = [part for part in computed if part.reaches_end]
        logits, all_logits = _sorted_out(computed, rows)
        return Executed(finished, logits, all_logits, causes, failed=failed, execute_s=executed_s)

    def _one_by_one(self, plan: StepPlan) -> tuple[list[Slice], Float32Array, list[tuple[Slice, Exception]]]:
        """Run the parts alone; those with copies first, because a copy's source may itself be about to go on."""
        reservation = plan.reservation
        computed: list[Slice] = []
        rows: list[Float32Array] = []
        faults: list[tuple[Slice, Exception]] = []
        for part in sorted(plan.slices, key=lambda s: not reservation.copies([s.job.id])):
            try:
                rows.append(self._execute([part], reservation))
            except Exception as cause:  # noqa: BLE001 - see above
                faults.append((part, cause))
            else:
                computed.append(part)
        none = np.empty((0, self._backend.vocab_size), np.float32)
        return computed, np.concatenate([none, *rows]), faults

    def _execute(self, parts: Sequence[Slice], reservation: Reservation) -> Float32Array:
        if self._trace is not None:
            self._trace.execute(
                (s.job.id, s.context_len, s.job.tokens[s.context_len : s.context_len + s.num_tokens])
                for s in parts
            )
        try:
            logits = self._backend.execute(self._pack(parts, reservation), self._cache).logits
        except BaseException as error:
            if self._trace is not None:
                self._trace.failed(str(error))
            raise
        if self._trace is not None:
            self._trace.executed()
        return logits

    def _pack(self, parts: Sequence[Slice], reservation: Reservation) -> Step:
        return pack_step(
            [
                SequenceInput(
                    token_ids=s.job.tokens[s.context_len : s.context_len + s.num_tokens],
                    context_len=s.context_len,
                    blocks=reservation.blocks(s.job.id),
                    logits=_wanted(s),
                    window_blocks=reservation.window_blocks(s.job.id),
                    adapter=s.job.adapter,
                    **_embeds(s),
                )
                for s in parts
            ],
            copies=[
                BlockCopy(c.source, c.target, c.num_tokens, c.group)
                for c in reservation.copies([s.job.id for s in parts])
            ],
        )

    def _commit(self, part: Slice, reservation: Reservation) -> None:
        reservation.commit(part.job.id, part.job.tokens)
        if self._trace is not None:
            trace_commit(self._trace, part.job.id, self._blocks)

    def _roll_back(self, part: Slice, reservation: Reservation) -> None:
        reservation.rollback(part.job.id)
        if self._trace is not None:
            self._trace.rollback(part.job.id)

    def _interrupt(self, part: Slice, reservation: Reservation) -> None:
        """Roll back a part of which nobody knows whether it was executed."""
        self._roll_back(part, reservation)
        if self._blocks.shape.exact:
            # a recurrent state may have gone on, and cannot go back
            self._blocks.rewind(part.job.id, 0)
            if self._trace is not None:
                trace_restart(self._trace, part.job, self._blocks)


def _wanted(part: Slice) -> str:
    """Whose logits a slice is computed for."""
    if part.job.logits_from is not None and part.wants_all_logits:
        return "all"
    return "last" if part.reaches_end else "none"


class _Embeds(TypedDict, total=False):
    embeds: Float32Array
    embeds_at: npt.NDArray[np.int64]


def _embeds(part: Slice) -> _Embeds:
    """What is read in place of ids in a slice."""
    tokens = part.job.tokens
    if not isinstance(tokens, TokenBuffer) or tokens.embedded is None:
        return {}
    found = tokens.embedded.between(part.context_len, part.context_len + part.num_tokens)
    return {} if found is None else {"embeds_at": found[0], "embeds": found[1]}


def _sorted_out(
    parts: Sequence[Slice], rows: Float32Array
) -> tuple[Float32Array, list[tuple[Slice, Float32Array]]]:
    """Of the logits that slices brought, those of the last tokens of sequences, and those of whole slices."""
    if all(part.job.logits_from is None for part in parts):
        return rows, []
    ends: list[int] = []
    whole: list[tuple[Slice, Float32Array]] = []
    at = 0
    for part in parts:
        start, at = at, at + (part.num_tokens if part.wants_all_logits else part.reaches_end)
        if part.wants_all_logits:
            whole.append((part, rows[start:at]))
        if part.reaches_end:
            ends.append(at - 1)
    return rows[ends], whole


def as_onnxgen_error(error: Exception) -> OnnxgenError:
    """An error of ours as it is; any other one as what the backend failed with."""
    if isinstance(error, OnnxgenError):
        return error
    wrapped = BackendError(f"the backend raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
