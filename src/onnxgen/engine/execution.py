"""Runs a planned step: all of it at once, or, when that fails, one sequence after the other.

A step that raises has changed no sequence. Which request made it raise is found by running the sequences alone:
those that succeed are committed as if nothing had happened, those that raise again are at fault. So a failure that
does not happen again costs nobody anything.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend, BlockCopy, KVCache, SequenceInput, Step, StepOutput, pack_step
from onnxgen.engine.tokens import TokenBuffer, TokensAhead
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracing import trace_commit, trace_reserve, trace_restart
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
        finished: The slices that reached the end of their sequence, and so have logits. Those with a draft are neither
            committed nor rolled back yet, see `Executor.conclude`.
        logits: float32 ``[rows, vocab]``: for each of them one row, and one more for each token of its draft.
        hidden_states: float32 ``[rows, hidden]`` of the same rows; None: nobody asked.
        prompt_states: The slices of prompts of which hidden states were asked for, and these, float32 ``[n, hidden]``: of all
            tokens, but for the last one where the slice is in ``finished``.
        all_logits: The slices of which all logits were wanted, and these, float32 ``[tokens, vocab]``.
        faults: Jobs whose part failed, and why.
        failed: Whether the step as a whole raised.
        execute_s: Seconds spent in the backend.
    """

    finished: Sequence[Slice]
    logits: Float32Array
    hidden_states: Float32Array | None
    prompt_states: Sequence[tuple[Slice, Float32Array]]
    all_logits: Sequence[tuple[Slice, Float32Array]]
    faults: Sequence[tuple[Job, OnnxgenError]]
    failed: bool
    execute_s: float

    @property
    def drafted(self) -> list[Slice]:
        """The slices with a draft."""
        return [part for part in self.finished if part.num_draft]


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
        self._hidden_of: Collection[int] = ()
        self._prompt_states: dict[int, Float32Array] = {}

    def run(self, plan: StepPlan, *, hidden_of: Collection[int] = ()) -> Executed:
        """Execute a plan, and commit or roll back every part of its reservation but those with a draft.

        Args:
            plan: The step.
            hidden_of: Ids of the jobs whose hidden states are wanted.
        """
        self._hidden_of, self._prompt_states = hidden_of, {}
        started = time.perf_counter()
        computed, faults = plan.slices, list[tuple[Slice, Exception]]()
        try:
            try:
                output = self._execute(plan.slices, plan.reservation)
                failed = False
            except Exception as error:  # noqa: BLE001 - whatever a backend raises, only the request at fault ends
                _log.warning(
                    "a step of %d sequences failed (%s), running them one by one", len(plan.slices), error
                )
                computed, output, faults = self._one_by_one(plan)
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
            elif not part.num_draft:
                self._commit(part, plan.reservation)
        causes = [(part.job, as_onnxgen_error(cause)) for part, cause in faults]
        finished = [part for part in computed if part.reaches_end]
        rows, all_logits = _sorted_out(computed, output.logits)
        return Executed(
            finished,
            output.logits if rows is None else output.logits[rows],
            _picked(output.hidden_states, rows),
            [
                (part, self._prompt_states[part.job.id])
                for part in computed
                if part.job.id in self._prompt_states
            ],
            all_logits,
            causes,
            failed=failed,
            execute_s=executed_s,
        )

    def conclude(
        self, executed: Executed, reservation: Reservation, accepted: Mapping[int, Sequence[int]]
    ) -> None:
        """Commit the parts with a draft as far as they count.

        Args:
            executed: The step.
            reservation: Its blocks.
            accepted: By the id of the job the tokens that were chosen after what it had, the first of which are those of
                its draft that count; without those for which nothing was chosen.
        """
        for part in executed.drafted:
            chosen = accepted.get(part.job.id, ())
            num_tokens = max(len(chosen), 1)
            if self._trace is not None and chosen:
                self._trace.accepted(part.job.id, chosen[:-1])
            if num_tokens <= part.num_draft and self._blocks.shape.exact:
                self._roll_back(part, reservation)
                continue
            tokens = TokensAhead(part.job.tokens, chosen[: num_tokens - 1])
            reservation.commit_accepted(part.job.id, tokens, num_tokens)
            if self._trace is not None:
                trace_commit(self._trace, part.job.id, self._blocks)

    def abandon(self, executed: Executed, reservation: Reservation) -> None:
        """Roll back the parts with a draft that were not concluded."""
        for part in executed.drafted:
            if reservation.holds(part.job.id):
                self._roll_back(part, reservation)

    def _one_by_one(self, plan: StepPlan) -> tuple[list[Slice], StepOutput, list[tuple[Slice, Exception]]]:
        """Run the parts alone; those with copies first, because a copy's source may itself be about to go on.

        Drafts are left out: the model may fail on tokens that were never to be.
        """
        reservation = plan.reservation
        plan.slices[:] = [self._without_draft(part, reservation) for part in plan.slices]
        computed: list[Slice] = []
        outputs: list[StepOutput] = []
        faults: list[tuple[Slice, Exception]] = []
        for part in sorted(plan.slices, key=lambda s: not reservation.copies([s.job.id])):
            try:
                outputs.append(self._execute([part], reservation))
            except Exception as cause:  # noqa: BLE001 - see above
                faults.append((part, cause))
            else:
                computed.append(part)
        none = np.empty((0, self._backend.vocab_size), np.float32)
        hidden = [output.hidden_states for output in outputs if output.hidden_states is not None]
        logits = np.concatenate([none, *(output.logits for output in outputs)])
        return computed, StepOutput(logits, np.concatenate(hidden) if hidden else None), faults

    def _execute(self, parts: Sequence[Slice], reservation: Reservation) -> StepOutput:
        if self._trace is not None:
            self._trace.execute((s.job.id, s.context_len, _token_ids(s)) for s in parts)
        try:
            output = self._run_parts(parts, reservation)
        except BaseException as error:
            if self._trace is not None:
                self._trace.failed(str(error))
            raise
        if self._trace is not None:
            self._trace.executed()
        return output

    def _run_parts(self, parts: Sequence[Slice], reservation: Reservation) -> StepOutput:
        """Run parts: at once, or, where hidden states of a prompt are wanted, that first, since nobody wants its logits."""
        prompts = [part for part in parts if self._is_run_before(part)]
        if not prompts:
            return self._backend.execute(self._pack(parts, reservation), self._cache)
        before = [_all_but_last(part) for part in prompts]
        step = self._pack(before, reservation, only_hidden_states=True)
        states = self._backend.execute(step, self._cache).hidden_states
        assert states is not None, "they were asked for"
        ends = np.cumsum([part.num_tokens for part in before])[:-1].tolist()
        self._prompt_states |= zip([part.job.id for part in before], np.split(states, ends), strict=True)
        done = {part.job.id: part.num_tokens for part in before}
        after = [_without_first(part, done.get(part.job.id, 0)) for part in parts]
        after = [part for part in after if part.num_computed]
        if not after:
            return StepOutput(np.empty((0, self._backend.vocab_size), np.float32), states[:0])
        return self._backend.execute(self._pack(after, reservation, copied=done), self._cache)

    def _is_run_before(self, part: Slice) -> bool:
        """Whether a part is a prompt whose hidden states are wanted, and can be run in two pieces."""
        return (
            part.job.id in self._hidden_of
            and part.num_tokens > part.reaches_end
            and not part.num_draft
            and part.job.logits_from is None
            and not self._blocks.shape.exact  # a state that has gone on cannot go back where the second piece fails
        )

    def _pack(
        self,
        parts: Sequence[Slice],
        reservation: Reservation,
        *,
        only_hidden_states: bool = False,
        copied: Collection[int] = (),
    ) -> Step:
        return pack_step(
            [
                SequenceInput(
                    token_ids=_token_ids(s),
                    context_len=s.context_len,
                    blocks=reservation.blocks(s.job.id),
                    logits="all" if only_hidden_states else _wanted(s),
                    window_blocks=reservation.window_blocks(s.job.id),
                    adapter=s.job.adapter,
                    **_embeds(s),
                )
                for s in parts
            ],
            copies=[
                BlockCopy(c.source, c.target, c.num_tokens, c.group)
                for c in reservation.copies([s.job.id for s in parts if s.job.id not in copied])
            ],
            want_hidden_states=bool(self._hidden_of),
            want_logits=not only_hidden_states,
        )

    def _without_draft(self, part: Slice, reservation: Reservation) -> Slice:
        if not part.num_draft:
            return part
        seq = part.job.id
        reservation.shorten(seq, part.num_tokens)
        if self._trace is not None:
            self._trace.rollback(seq)
            trace_reserve(self._trace, part._replace(num_draft=0), reservation)
        return part._replace(num_draft=0)

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


def _all_but_last(part: Slice) -> Slice:
    """A prompt's slice without its last token where that is the sequence's, whose logits are wanted."""
    return part._replace(num_tokens=part.num_tokens - part.reaches_end)


def _without_first(part: Slice, count: int) -> Slice:
    return part._replace(context_len=part.context_len + count, num_tokens=part.num_tokens - count)


def _wanted(part: Slice) -> str:
    """Whose logits a slice is computed for."""
    if part.num_draft or (part.job.logits_from is not None and part.wants_all_logits):
        return "all"
    return "last" if part.reaches_end else "none"


def _token_ids(part: Slice) -> Sequence[int]:
    """What a slice computes."""
    ids = part.job.tokens[part.context_len : part.end]
    return [*ids, *part.job.draft[: part.num_draft]] if part.num_draft else ids


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
    parts: Sequence[Slice], logits: Float32Array
) -> tuple[list[int] | None, list[tuple[Slice, Float32Array]]]:
    """Of the rows that slices brought, those behind the last tokens of sequences and their drafts, and whole slices' logits.

    Returns:
        None in place of numbers of rows where these are all.
    """
    if all(part.job.logits_from is None for part in parts):
        return None, []
    ends: list[int] = []
    whole: list[tuple[Slice, Float32Array]] = []
    at = 0
    for part in parts:
        start, at = at, at + (part.num_tokens if part.wants_all_logits else part.reaches_end) + part.num_draft
        if part.wants_all_logits:
            whole.append((part, logits[start:at]))
        if part.reaches_end:
            ends += range(at - 1 - part.num_draft, at)
    return ends, whole


def _picked(rows: Float32Array | None, numbers: list[int] | None) -> Float32Array | None:
    return rows if rows is None or numbers is None else rows[numbers]


def as_onnxgen_error(error: Exception) -> OnnxgenError:
    """An error of ours as it is; any other one as what the backend failed with."""
    if isinstance(error, OnnxgenError):
        return error
    wrapped = BackendError(f"the backend raised {type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped
