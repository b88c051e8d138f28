"""`Intake`: checks a request, and makes of it what scheduling and choosing work on."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import Backend
from onnxgen.engine.constraints.compiler import CompiledGrammar
from onnxgen.engine.grammar_following import wanted_grammar
from onnxgen.engine.grammar_source import GrammarSource
from onnxgen.engine.register import Register
from onnxgen.engine.request import EngineRequest, check_embedding_size, longest, prompt_ids
from onnxgen.engine.rotary_switch import RotarySwitch
from onnxgen.engine.tokens import TokenBuffer
from onnxgen.engine.trace import EngineTrace
from onnxgen.engine.tracing import trace_submit
from onnxgen.engine.tracked import Tracked
from onnxgen.errors import CapabilityError
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.scheduler import Scheduler

_log = logging.getLogger(__name__)


class Intake:
    """Takes requests in.

    Args:
        backend: What it can do decides what may be asked for.
        limit: The longest sequence, in tokens.
        num_tokens: Ids below it may be named by options.
        max_logits_rows: The longest chunk of a prompt that is scored.
        switch: Which side of it a sequence begins on.
        scheduler: Gets the sequence that computes the prompt.
        register: Gets the request.
        grammars: Compiles grammars; None: requests must not have one.
        new_job_id: Numbers for sequences.
        clock: Seconds from any beginning, for deadlines.
        trace: Told of requests; None: nobody is.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        limit: int,
        num_tokens: int,
        max_logits_rows: int,
        switch: RotarySwitch,
        scheduler: Scheduler,
        register: Register,
        grammars: GrammarSource | None,
        new_job_id: Callable[[], int],
        clock: Callable[[], float],
        trace: EngineTrace | None,
    ) -> None:
        able = backend.capabilities
        self._adapters, self._one_adapter_a_step = backend.adapters, able.adapters == "step"
        self._vocab_size, self._embedding_size = backend.vocab_size, able.embedding_size
        self._limit, self._num_tokens, self._max_logits_rows = limit, num_tokens, max_logits_rows
        self._switch = switch
        self._scheduler = scheduler
        self._register = register
        self._grammars = grammars
        self._new_job_id = new_job_id
        self._request_ids = itertools.count()
        self._clock = clock
        self._trace = trace

    def prepare(self, request: EngineRequest) -> None:
        """Compile a request's grammar. Raises what `EngineCore.prepare` says."""
        self._compiled(request)

    def take(self, request: EngineRequest) -> int:
        """Let a request wait for its first step; returns its number. Raises what `EngineCore.submit` says."""
        prompt = prompt_ids(request, vocab_size=self._vocab_size)
        request.sampling.check_ids(self._num_tokens)
        check_embedding_size(request, self._embedding_size)
        max_tokens = longest(request, context_length=self._limit)
        grammar = self._compiled(request)
        if request.adapter is None:
            return self._add(request, prompt, max_tokens, adapter_digest=None, grammar=grammar)
        digest = self._adapters.acquire(request.adapter)
        try:
            return self._add(request, prompt, max_tokens, adapter_digest=digest, grammar=grammar)
        except BaseException:
            self._adapters.release(request.adapter)
            raise

    def _compiled(self, request: EngineRequest) -> CompiledGrammar | None:
        grammar = wanted_grammar(request)
        if grammar is None:
            return None
        if self._grammars is None:
            raise CapabilityError(
                f"a {grammar.kind} grammar was asked for, and this engine was made without a compiler of grammars; give "
                "EngineCore one that knows the model's tokenizer"
            )
        return self._grammars.compile(grammar)

    def _add(
        self,
        request: EngineRequest,
        prompt: npt.NDArray[np.int64],
        max_tokens: int,
        *,
        adapter_digest: str | None,
        grammar: CompiledGrammar | None,
    ) -> int:
        tracked = Tracked(
            next(self._request_ids),
            request,
            prompt,
            deadline=None if request.deadline_s is None else self._clock() + request.deadline_s,
            accepted_s=time.perf_counter(),
            adapter_digest=adapter_digest,
            adapter_lane=request.adapter if self._one_adapter_a_step else None,
            grammar=grammar,
        )
        tokens = TokenBuffer()
        tokens.extend(prompt)
        tokens.embedded = tracked.embedded
        job = Job(
            id=self._new_job_id(),
            tokens=tokens,
            max_tokens=max_tokens,
            priority=request.priority,
            tenant=request.tenant,
            width=request.n,
            allow_cap=request.allow_cap or request.max_new_tokens is None,
            adapter=request.adapter,
            **self._switch.side(len(tokens), lane=tracked.lane, extra=tracked.extra),
        )
        if tracked.prompt_scores is not None:
            job.logits_from, job.chunk_limit = tracked.prompt_scores.next_row, self._max_logits_rows
        self._scheduler.add(job)
        sample = tracked.first_sample(tokens)
        self._register.add(tracked, sample, job)
        _log.debug("request %s waits: %d prompt tokens, %d answers", sample.name, len(tokens), request.n)
        if self._trace is not None:
            trace_submit(self._trace, tracked.id, job, prompt, samples=request.n, name=request.name)
        return tracked.id
