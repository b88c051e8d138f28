"""`Settler`: appends what was chosen to its sequences, ends what it ends, and says so."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import zip_longest

from onnxgen.engine.choosing import Choices
from onnxgen.engine.grammar_following import follow, must_follow
from onnxgen.engine.register import Register
from onnxgen.engine.rotary_switch import RotarySwitch
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.sampling.logprobs import TokenLogprobs
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracing import trace_restart
from onnxgen.errors import OnnxgenError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.scheduler import Scheduler


class Settler:
    """Does with choices what they bring about.

    Args:
        eos_ids: Tokens that end an answer.
        switch: Where sequences are to be computed again.
        register: Told of what samples have to tell.
        scheduler: Told of sequences that are computed again.
        blocks: Asked only for the trace.
        trace: Told of tokens; None: nobody is.
    """

    def __init__(
        self,
        eos_ids: Container[int],
        *,
        switch: RotarySwitch,
        register: Register,
        scheduler: Scheduler,
        blocks: CacheManager,
        trace: EngineTrace | None,
    ) -> None:
        self._eos_ids = eos_ids
        self._switch = switch
        self._register = register
        self._scheduler = scheduler
        self._blocks = blocks
        self._trace = trace

    def settle(self, choices: Choices, *, faults: Sequence[tuple[Job, OnnxgenError]]) -> int:
        """Append the tokens, end what they end, and say so.

        Args:
            choices: What was chosen.
            faults: Sequences that failed in the backend, and why.

        Returns:
            Tokens that had to follow those that were chosen, and were appended too.
        """
        num_forced = 0
        for job, error in faults:
            self._register.end(self._register.sample(job.id), job, "error", error=error)
        if self._trace is not None:
            self._trace.sample(
                (job.id, tokens[-1]) for _, job, tokens in choices.chosen if isinstance(tokens, tuple)
            )
        for sample, job, tokens in choices.chosen:
            if isinstance(tokens, OnnxgenError):
                self._register.end(sample, job, "error", error=tokens)
            elif tokens is None:
                self._register.end(sample, job, "length")
            else:
                self._append_all(sample, job, tokens, choices.logprobs.get(job.id, ()))
                if sample.grammar is not None:
                    num_forced += self._follow_grammar(sample, job)
        return num_forced

    def _append_all(
        self, sample: Sample, job: Job, tokens: Sequence[int], logprobs: Sequence[TokenLogprobs]
    ) -> None:
        """Append tokens up to the one that ends the sample; what comes after it is dropped."""
        for token, own in zip_longest(tokens, logprobs):
            if sample.state is SampleState.FINISHED:
                return
            self._append(sample, job, token, own)

    def _append(self, sample: Sample, job: Job, token: int, logprobs: TokenLogprobs | None) -> None:
        request = sample.request
        if token in self._eos_ids and (not request.ignore_eos or sample.grammar is not None):
            self._register.end(sample, job, "eos", token_id=token, is_eos=True, logprobs=logprobs)
            return
        if token in request.stop_token_ids:
            self._register.end(sample, job, "stop", token_id=token, is_eos=True, logprobs=logprobs)
            return
        sample.tokens.append(token)
        if sample.num_tokens >= job.max_tokens:
            self._end_at_limit(sample, job, token, logprobs)
            return
        if sample.state is not SampleState.DECODE and job.state is JobState.RUNNING:
            sample.advance(SampleState.DECODE)
        self._register.tell_token(sample, token, logprobs)
        if self._switch.exists and self._switch.is_crossed_by(sample.num_tokens):
            self._cross_rotary_switch(sample, job)

    def _end_at_limit(self, sample: Sample, job: Job, token: int, logprobs: TokenLogprobs | None) -> None:
        """End a sample that is as long as it may be; one whose grammar is complete needs not be longer."""
        try:
            reason = "eos" if follow(sample) else "length"
        except OnnxgenError as error:
            self._register.end(sample, job, "error", error=error)
            return
        self._register.end(sample, job, reason, token_id=token, logprobs=logprobs)

    def _follow_grammar(self, sample: Sample, job: Job) -> int:
        """End a sample whose grammar is complete; let the tokens follow that must, and say how many those are."""
        before = sample.num_tokens
        try:
            while sample.state is not SampleState.FINISHED:
                if follow(sample):
                    self._register.end(sample, job, "eos")
                    break
                forced = must_follow(sample)
                if not forced:
                    break
                if self._trace is not None:
                    self._trace.forced(job.id, forced)
                self._append_all(sample, job, forced, ())
        except OnnxgenError as error:
            self._register.end(sample, job, "error", error=error)
        return sample.num_tokens - before

    def _cross_rotary_switch(self, sample: Sample, job: Job) -> None:
        """Compute a sequence again that has become too long for the factors its keys were made with."""
        if job.state is JobState.RUNNING:
            sample.advance(SampleState.PREFILL)
        tracked = self._register.tracked(sample)
        self._scheduler.restart(
            job, **self._switch.side(len(job.tokens), lane=tracked.lane, extra=tracked.extra)
        )
        if self._trace is not None:
            trace_restart(self._trace, job, self._blocks)
