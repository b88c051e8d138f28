"""`Register`: the requests that have not ended, and what is to be told of them. Each sample ends exactly once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from onnxgen.backends.loaded_adapters import LoadedAdapters
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracked import Tracked
from onnxgen.errors import OnnxgenError
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.scheduler import Scheduler

_log = logging.getLogger(__name__)

_STATES = {
    JobState.WAITING: {SampleState.WAITING},
    JobState.RUNNING: {SampleState.PREFILL, SampleState.DECODE},
    JobState.PREEMPTED: {SampleState.PREEMPTED, SampleState.SWAPPED},  # the latter where a tier lost it
    JobState.SWAPPED: {SampleState.SWAPPED},
}


class Register:
    """The requests that have not ended.

    Args:
        scheduler: Told of sequences that end.
        adapters: Told of requests that no longer use one.
        trace: Told of every end; None: nobody is.

    Attributes:
        finished: Samples that ended, by reason.
        submitted: Requests that were ever added.
    """

    def __init__(
        self, scheduler: Scheduler, *, adapters: LoadedAdapters[Any], trace: EngineTrace | None
    ) -> None:
        self._scheduler = scheduler
        self._adapters = adapters
        self._trace = trace
        self._requests: dict[int, Tracked] = {}
        self._samples: dict[int, tuple[Sample, Job]] = {}  # by the job's id
        self._untold: list[EngineEvent] = []
        self.finished: Counter[str] = Counter()
        self.submitted = 0

    @property
    def num_samples(self) -> int:
        """Sequences that have not ended."""
        return len(self._samples)

    @property
    def num_ended(self) -> int:
        """Samples that have ended."""
        return sum(self.finished.values())

    @property
    def has_untold(self) -> bool:
        """Whether there are events to take."""
        return bool(self._untold)

    def add(self, tracked: Tracked, sample: Sample, job: Job) -> None:
        """A request begins, with the sequence that computes its prompt."""
        self._requests[tracked.id] = tracked
        self._samples[job.id] = sample, job
        self.submitted += 1

    def add_fork(self, sample: Sample, job: Job) -> None:
        """Another sample of a request has a sequence of its own now."""
        self._samples[job.id] = sample, job

    def request(self, request_id: int) -> Tracked | None:
        """A request that has not ended."""
        return self._requests.get(request_id)

    def knows(self, job_id: int) -> bool:
        """Whether a job is of a sample that has not ended."""
        return job_id in self._samples

    def sample(self, job_id: int) -> Sample:
        """Whose sequence a job computes."""
        return self._samples[job_id][0]

    def tracked(self, sample: Sample) -> Tracked:
        """The request of a sample that has not ended."""
        return self._requests[sample.request_id]

    def jobs(self) -> list[Job]:
        """Those of all samples."""
        return [job for _, job in self._samples.values()]

    def sequences(self) -> list[tuple[Sample, Job]]:
        """All samples, each with its job."""
        return list(self._samples.values())

    def expired(self, now: float) -> Iterator[Tracked]:
        """Requests whose deadline has come."""
        for tracked in list(self._requests.values()):
            if tracked.deadline is not None and tracked.deadline <= now:
                yield tracked

    def tell_token(self, sample: Sample, token: int, logprobs: TokenLogprobs | None) -> None:
        """Keep the news of a token until it is taken."""
        asked = sample.request.prompt_logprobs is not None
        scores = self._requests[sample.request_id].take_prompt_scores() if asked else None
        self._untold.append(
            EngineEvent(sample.request_id, sample.index, token, logprobs=logprobs, prompt_logprobs=scores)
        )

    def take_untold(self) -> list[EngineEvent]:
        """All events since the last time."""
        untold, self._untold = self._untold, []
        return untold

    def end_index(self, tracked: Tracked, index: int, reason: FinishReason) -> None:
        """End a sample, which may not have a sequence of its own yet."""
        sample, job = next(
            (s, j)
            for s, j in self._samples.values()
            if s.request_id == tracked.id and (s.index == index or index in tracked.unforked)
        )
        usage = sample.usage
        if tracked.drop_unforked(sample, index):
            job.width -= 1
            self._tell_end(tracked, EngineEvent(tracked.id, index, finish_reason=reason, usage=usage))
        else:
            self.end(sample, job, reason)

    def end(
        self,
        sample: Sample,
        job: Job,
        reason: FinishReason,
        *,
        token_id: int | None = None,
        is_eos: bool = False,
        error: OnnxgenError | None = None,
        logprobs: TokenLogprobs | None = None,
    ) -> None:
        """End a sample that has a sequence, and with it those that the sequence still stands for."""
        tracked = self._requests[sample.request_id]
        sample.advance(SampleState.FINISHED)
        _log.debug("%s ended: %s", sample, reason)
        self._scheduler.remove(job, keep=error is None)
        del self._samples[job.id]
        if self._trace is not None:
            self._trace.release(job.id)
        is_answered = token_id is not None or reason == "length"
        indices, tracked.unforked = (sample.index, *tracked.unforked), []
        for index in indices:
            self._tell_end(
                tracked,
                EngineEvent(
                    tracked.id,
                    index,
                    token_id,
                    is_eos=is_eos,
                    finish_reason=reason,
                    usage=sample.usage,
                    error=error,
                    logprobs=logprobs,
                    prompt_logprobs=tracked.take_prompt_scores() if is_answered else None,
                ),
            )

    def drop_all(self) -> None:
        """Forget all requests, without a word to anybody."""
        for _, job in self._samples.values():
            self._scheduler.remove(job, keep=False)
            if self._trace is not None:
                self._trace.release(job.id)
        if self._trace is not None:
            for tracked in self._requests.values():
                for index in tracked.open:
                    self._trace.finish(tracked.id, index, "cancelled")
        for tracked in self._requests.values():
            self._release_adapter(tracked)
        self._samples.clear()
        self._requests.clear()
        self._untold.clear()

    def check_integrity(self) -> None:
        """Check that requests and samples agree."""
        for sample, job in self._samples.values():
            assert sample.state in _STATES[job.state], f"{sample} has a job that is {job.state.name}"
            assert sample.index in self._requests[sample.request_id].open, sample
            assert sample.tokens is job.tokens, sample
        for tracked in self._requests.values():
            own = [s.index for s, _ in self._samples.values() if s.request_id == tracked.id]
            assert sorted([*own, *tracked.unforked]) == sorted(tracked.open), (own, tracked.unforked)
        for sample, job in self._samples.values():
            stands_for = 1 + len(self._requests[sample.request_id].unforked)
            assert job.width == stands_for, f"{sample} counts as {job.width} and stands for {stands_for}"

    def _release_adapter(self, tracked: Tracked) -> None:
        if tracked.request.adapter is not None:
            self._adapters.release(tracked.request.adapter)

    def _tell_end(self, tracked: Tracked, event: EngineEvent) -> None:
        assert event.finish_reason is not None
        tracked.open.remove(event.index)
        if not tracked.open:
            del self._requests[tracked.id]
            self._release_adapter(tracked)
        self.finished[event.finish_reason] += 1
        if self._trace is not None:
            self._trace.finish(event.request_id, event.index, event.finish_reason)
        self._untold.append(event)
