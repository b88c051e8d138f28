"""`Chooser`: what a step brought for each sequence: a token, and how probable it and the prompt's tokens were."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from onnxgen.engine.drafting.accepting import drawn_tokens, ends_answer, equal_tokens, up_to_complete
from onnxgen.engine.drafting.drafted_row import drafted_rows
from onnxgen.engine.execution import Executed
from onnxgen.engine.masks import MaskWorker
from onnxgen.engine.register import Register
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.sampling.custom import SampledRow
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.sampling.rows import Drawn, RowSampler
from onnxgen.engine.sampling.scoring import processed_logprobs, raw_logprobs
from onnxgen.engine.speculation.base import Draft
from onnxgen.engine.speculation.drafts import shortened
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracing import trace_fork
from onnxgen.errors import OnnxgenError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.plan import StepPlan
from onnxgen.scheduler.scheduler import Scheduler

Chosen = tuple[Sample, Job, "tuple[int, ...] | OnnxgenError | None"]
"""A sample and its sequence, and its next tokens, at least one, or what prevents one; None: it was to be scored only,
and is."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen in a step.

    Attributes:
        chosen: For every sample that goes on or ends.
        logprobs: Of the tokens of those who asked, by the id of their job.
    """

    chosen: Sequence[Chosen] = ()
    logprobs: Mapping[int, Sequence[TokenLogprobs]] = field(
        default_factory=dict[int, Sequence[TokenLogprobs]]
    )

    @property
    def num_tokens(self) -> int:
        """How many tokens were chosen."""
        return sum([len(tokens) for _, _, tokens in self.chosen if isinstance(tokens, tuple)])

    def accepted(self, executed: Executed) -> Mapping[int, Sequence[int]]:
        """Tokens of the sequences that had a draft, by the id of the job; without those that have none."""
        drafted = {part.job.id for part in executed.finished if part.num_draft}
        if not drafted:
            return {}
        return {
            job.id: tokens
            for _, job, tokens in self.chosen
            if isinstance(tokens, tuple) and job.id in drafted
        }


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sample that gets tokens.

    Attributes:
        sample: The sample.
        job: Its sequence.
        row: The first of its rows.
        draft: What was computed behind its last token; None: nothing.
    """

    sample: Sample
    job: Job
    row: int
    draft: Draft | None = None

    @property
    def rows(self) -> range:
        """Its rows."""
        return range(self.row, self.row + 1 + (0 if self.draft is None else len(self.draft.tokens)))


class Chooser:
    """Chooses the tokens of a step, and lets samples fork off when their prompt is there.

    Args:
        sampler: Chooses from rows of logits.
        masks: Works out what grammars allow.
        eos_ids: Tokens that end an answer.
        register: Knows whose sequences they are.
        scheduler: Told of forks.
        blocks: Asked only for the trace.
        new_job_id: Numbers for the sequences of forks.
        trace: Told of forks; None: nobody is.
    """

    def __init__(
        self,
        sampler: RowSampler,
        *,
        masks: MaskWorker,
        eos_ids: Container[int],
        register: Register,
        scheduler: Scheduler,
        blocks: CacheManager,
        new_job_id: Callable[[], int],
        trace: EngineTrace | None,
    ) -> None:
        self._sampler = sampler
        self._masks = masks
        self._eos_ids = eos_ids
        self._register = register
        self._scheduler = scheduler
        self._blocks = blocks
        self._new_job_id = new_job_id
        self._trace = trace

    def prepare(self, plan: StepPlan) -> None:
        """Do, or begin, what can be done before a step is executed: work out what may follow in sequences with a grammar."""
        reached = [
            (self._register.sample(part.job.id), part.job.draft[: part.num_draft])
            for part in plan.slices
            if part.reaches_end
        ]
        self._masks.begin(
            [(s, draft) for s, draft in reached if s.grammar is not None and s.request.max_new_tokens != 0]
        )

    def choose(self, executed: Executed, drafts: Mapping[int, Draft]) -> Choices:
        """A token, or several, or what prevented one, for every sample whose sequence reached its end.

        Args:
            executed: What the step brought.
            drafts: Of the slices that have one, by the id of the job.
        """
        ended = self._score_prompts(executed) if executed.all_logits else []
        failed = [job for _, job, _ in ended]
        asked: list[_Asked] = []
        sampled: list[SampledRow] = []
        rows: list[int] = []
        row = 0
        for part in executed.finished:
            job, own_rows = part.job, range(row, row + 1 + part.num_draft)
            row += len(own_rows)
            sample = self._register.sample(job.id)
            if failed and job in failed:
                continue
            if sample.request.max_new_tokens == 0:
                ended.append((sample, job, None))
                continue
            masks = self._masks_of(sample)
            own = [(sample, job), *self._fork(sample, job)]
            if isinstance(masks, OnnxgenError):
                ended += [(one, each, masks) for one, each in own]
                continue
            if part.num_draft:
                draft = shortened(drafts[job.id], part.num_draft)
                asked.append(_Asked(sample, job, len(rows), draft))
                sampled += drafted_rows(sample, job.draft[: part.num_draft], masks)
                rows += own_rows
                continue
            for one, each in own:
                one.mask = None if masks is None else masks[0]
                asked.append(_Asked(one, each, len(rows)))
                sampled.append(one)
                rows.append(row - 1)
        if not asked:
            return Choices(ended)
        logits = executed.logits if rows == list(range(row)) else executed.logits[rows]
        tokens, drawn = self._sampler.choose_and_keep(logits, sampled, keep=_kept(asked))
        chosen = [(each.sample, each.job, self._accepted(each, tokens, drawn)) for each in asked]
        scores = _logprobs(asked, [own for _, _, own in chosen], logits, drawn)
        return Choices([*ended, *chosen] if ended else chosen, scores)

    def _accepted(
        self, asked: _Asked, tokens: Sequence[int | OnnxgenError], drawn: Mapping[int, Drawn]
    ) -> tuple[int, ...] | OnnxgenError:
        """What a sample gets: the token of its row, or of the rows of a draft those that count."""
        draft, sample = asked.draft, asked.sample
        own = [tokens[row] for row in asked.rows]
        if draft is None:
            return own[0] if isinstance(own[0], OnnxgenError) else (own[0],)
        ends = partial(ends_answer, sample, eos_ids=self._eos_ids)
        if draft.distributions is None:
            found = equal_tokens(draft.tokens, own, ends=ends)
        else:
            targets = list(takewhile(lambda each: each is not None, map(drawn.get, asked.rows)))
            found = drawn_tokens(
                draft, own, [each for each in targets if each is not None], sample, ends=ends
            )
        return found if isinstance(found, OnnxgenError) else up_to_complete(sample, found)

    def _masks_of(self, sample: Sample) -> npt.NDArray[np.uint32] | OnnxgenError | None:
        """Which tokens may follow in a sample, and after each token of its draft; or why none may. None: all."""
        if sample.grammar is None:
            return None
        try:
            return self._masks.masks(sample)
        except OnnxgenError as error:
            return error

    def _score_prompts(self, executed: Executed) -> list[Chosen]:
        """Gather how probable prompts are; returns those that cannot be scored."""
        failed: list[Chosen] = []
        for part, logits in executed.all_logits:
            sample = self._register.sample(part.job.id)
            scores = self._register.tracked(sample).prompt_scores
            assert scores is not None
            try:
                scores.add(logits, first=part.context_len)
            except OnnxgenError as error:
                failed.append((sample, part.job, error))
            part.job.logits_from = scores.next_row
        return failed

    def _fork(self, sample: Sample, job: Job) -> Sequence[tuple[Sample, Job]]:
        """The other samples of a request whose prompt has just been computed."""
        tracked = self._register.tracked(sample)
        if not tracked.unforked:
            return ()
        forks: list[tuple[Sample, Job]] = []
        for child in tracked.fork(sample):
            fork = replace(job, id=self._new_job_id(), tokens=child.tokens, width=1)
            runs = self._scheduler.fork(job, fork)
            child.advance(SampleState.PREFILL if runs else SampleState.PREEMPTED)
            self._register.add_fork(child, fork)
            forks.append((child, fork))
            if self._trace is not None:
                trace_fork(self._trace, job.id, fork.id, child.index, self._blocks if runs else None)
        return forks


def _kept(asked: Sequence[_Asked]) -> set[int]:
    """Rows of which it counts what their tokens are drawn from."""
    kept: set[int] = set()
    for each in asked:
        request = each.sample.request
        is_told = request.logprobs is not None and request.logprobs_of == "processed"
        if is_told or (each.draft is not None and each.draft.distributions is not None):
            kept.update(each.rows)
    return kept


def _logprobs(
    asked: Sequence[_Asked],
    chosen: Sequence[tuple[int, ...] | OnnxgenError | None],
    logits: npt.NDArray[np.float32],
    drawn: Mapping[int, Drawn],
) -> Mapping[int, Sequence[TokenLogprobs]]:
    """How probable tokens were, of those who want to know, by the id of their job.

    Args:
        asked: Who gets tokens.
        chosen: Which ones.
        logits: float32 ``[rows, vocab]``.
        drawn: What tokens were drawn from, of rows where that counts.
    """
    found: dict[int, list[TokenLogprobs | None]] = {}
    raw: list[tuple[list[TokenLogprobs | None], int, int, int, int]] = []
    for each, tokens in zip(asked, chosen, strict=True):
        top = each.sample.request.logprobs
        if not isinstance(tokens, tuple) or top is None:
            continue
        scores: list[TokenLogprobs | None] = [None] * len(tokens)
        found[each.job.id] = scores
        for at, token in enumerate(tokens):
            row = each.row + at
            if each.sample.request.logprobs_of == "processed" and row in drawn:
                scores[at] = processed_logprobs(drawn[row], token, top)
            else:
                raw.append((scores, at, row, token, top))
    if raw:
        lists, places, rows, tokens, tops = zip(*raw, strict=True)
        told = raw_logprobs([logits[row] for row in rows], tokens, tops)
        for scores, at, score in zip(lists, places, told, strict=True):
            scores[at] = score
    return {job_id: [s for s in scores if s is not None] for job_id, scores in found.items() if any(scores)}
