"""`Chooser`: what a step brought for each sequence: a token, and how probable it and the prompt's tokens were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from onnxgen.engine.execution import Executed
from onnxgen.engine.masks import MaskWorker
from onnxgen.engine.register import Register
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.sampling.rows import Drawn, RowSampler
from onnxgen.engine.sampling.scoring import processed_logprobs, raw_logprobs
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


class Chooser:
    """Chooses the tokens of a step, and lets samples fork off when their prompt is there.

    Args:
        sampler: Chooses from rows of logits.
        masks: Works out what grammars allow.
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
        register: Register,
        scheduler: Scheduler,
        blocks: CacheManager,
        new_job_id: Callable[[], int],
        trace: EngineTrace | None,
    ) -> None:
        self._sampler = sampler
        self._masks = masks
        self._register = register
        self._scheduler = scheduler
        self._blocks = blocks
        self._new_job_id = new_job_id
        self._trace = trace

    def prepare(self, plan: StepPlan) -> None:
        """Begin what can be done while a step is executed: work out what may follow in sequences with a grammar."""
        reached = [self._register.sample(part.job.id) for part in plan.slices if part.reaches_end]
        self._masks.begin(
            [(s, ()) for s in reached if s.grammar is not None and s.request.max_new_tokens != 0]
        )

    def choose(self, executed: Executed) -> Choices:
        """A token, or what prevented one, for every sample whose sequence reached its end."""
        ended = self._score_prompts(executed) if executed.all_logits else []
        failed = [job for _, job, _ in ended]
        owners: list[tuple[Sample, Job]] = []
        rows: list[int] = []
        for row, part in enumerate(executed.finished):
            sample = self._register.sample(part.job.id)
            if failed and part.job in failed:
                continue
            if sample.request.max_new_tokens == 0:
                ended.append((sample, part.job, None))
                continue
            own = [(sample, part.job), *self._fork(sample, part.job)]
            error = self._set_masks(own)
            if error is not None:
                ended += [(one, job, error) for one, job in own]
                continue
            owners += own
            rows += [row] * len(own)
        if not owners:
            return Choices(ended)
        own_rows = rows == list(range(len(executed.finished)))
        logits = executed.logits if own_rows else executed.logits[rows]
        samples = [sample for sample, _ in owners]
        asked = [row for row, sample in enumerate(samples) if sample.request.logprobs is not None]
        processed = [row for row in asked if samples[row].request.logprobs_of == "processed"]
        tokens, drawn = self._sampler.choose_and_keep(logits, samples, keep=processed)
        chosen: list[Chosen] = [
            (sample, job, token if isinstance(token, OnnxgenError) else (token,))
            for (sample, job), token in zip(owners, tokens, strict=True)
        ]
        if not asked:
            return Choices([*ended, *chosen] if ended else chosen)
        scores = _logprobs([(row, *owners[row], tokens[row]) for row in asked], logits, drawn)
        return Choices([*ended, *chosen], {job_id: (score,) for job_id, score in scores.items()})

    def _set_masks(self, own: Sequence[tuple[Sample, Job]]) -> OnnxgenError | None:
        """Say which tokens may follow in a sample and those that forked off it, which are where it is; or why none may."""
        first = own[0][0]
        if first.grammar is None:
            return None
        try:
            mask = self._masks.masks(first)[0]
        except OnnxgenError as error:
            return error
        for sample, _ in own:
            sample.mask = mask
        return None

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


def _logprobs(
    asked: Sequence[tuple[int, Sample, Job, int | OnnxgenError | None]],
    logits: npt.NDArray[np.float32],
    drawn: Mapping[int, Drawn],
) -> Mapping[int, TokenLogprobs]:
    """How probable tokens were, by the id of their job.

    Args:
        asked: Whose are wanted: row, sample, job, token.
        logits: float32 ``[rows, vocab]``.
        drawn: What tokens were drawn from, of rows where that counts.
    """
    found: dict[int, TokenLogprobs | None] = {}
    raw: list[tuple[int, int, int, int]] = []
    for row, sample, job, token in asked:
        top = sample.request.logprobs
        if not isinstance(token, int) or top is None:
            continue
        if row in drawn:
            found[job.id] = processed_logprobs(drawn[row], token, top)
        else:
            raw.append((job.id, row, token, top))
    if raw:
        ids, rows, tokens, tops = zip(*raw, strict=True)
        scores = raw_logprobs([logits[row] for row in rows], tokens, tops)
        found.update(zip(ids, scores, strict=True))
    return {job_id: score for job_id, score in found.items() if score is not None}
