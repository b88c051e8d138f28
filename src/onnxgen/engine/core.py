"""`EngineCore`: many requests on one model, one step at a time.

What happens, and where::

    submit    a request is checked, and waits                                       intake, register
    draft     tokens are guessed for those who are about to get one                 speculation
    plan      who takes part, with how many tokens, and which blocks they write     scheduler, kvcache
    execute   one ragged step of the backend; committed, or rolled back             execution
    choose    one token for every sequence whose end was reached, or as many of its
              draft as the model agrees with and one more; the rest is taken back   choosing, sampling
    settle    append it, or end the sample; tell                                    settling, register
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import Backend
from onnxgen.engine.cache_size import make_cache
from onnxgen.engine.choosing import Chooser
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.drafting.speculator import Speculator, check_hidden_states, check_method
from onnxgen.engine.events import EngineEvent, FinishReason
from onnxgen.engine.execution import Executed, Executor
from onnxgen.engine.grammar_source import GrammarSource
from onnxgen.engine.intake import Intake
from onnxgen.engine.masks import MaskWorker
from onnxgen.engine.outside_pool import OutsidePool
from onnxgen.engine.pool_shape import shape_of
from onnxgen.engine.register import Register
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.rotary_switch import RotarySwitch
from onnxgen.engine.sample import SampleState
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.settling import Settler
from onnxgen.engine.speculation.base import Proposer
from onnxgen.engine.speculation.prompt_lookup import PromptLookup
from onnxgen.engine.stats import EngineStats, StepStats
from onnxgen.engine.tally import Tally
from onnxgen.engine.tracing import (
    open_trace,
    trace_plan,
    trace_restart,
    trace_usage,
)
from onnxgen.engine.view import EngineView, sequence_views
from onnxgen.errors import ConfigError, StateError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.job import JobState
from onnxgen.scheduler.plan import StepPlan
from onnxgen.scheduler.scheduler import Scheduler

_log = logging.getLogger(__name__)

_LOGITS_BYTES = 64 << 20
"""Memory for the logits of prompts that are scored in one step."""


class EngineCore:
    """Many requests on one model.

    One thread owns an engine: the first that calls it, until it says `hand_over`.

    Args:
        backend: Executes the steps; stays the caller's.
        config: Budgets, cache, policy.
        eos_ids: Tokens that end an answer.
        context_length: The longest sequence that the model is made for, in tokens; None: what the backend takes.
        rope_switch_length: See `DecoderModel.rope_switch_length`.
        num_tokens: Ids from here on are padding of the vocabulary, and never chosen; None: there is none.
        unused_ids: Likewise, holes among the others.
        grammars: Compiles grammars that requests ask for; stays the caller's. None: they must not.
        proposers: What guesses tokens, by the method that requests call it; they stay the caller's. Prompt lookup is there
            in any case.
        clock: Seconds from any beginning, for deadlines.

    Raises:
        BackendError: The cache cannot be had.
        ConfigError: There is no such policy, a file or folder of the configuration cannot be made, or the compiler of
            grammars is made for another vocabulary or other ends.
        CapabilityError: The configuration asks for speculation that there is no proposer for.
    """

    def __init__(
        self,
        backend: Backend,
        config: EngineConfig | None = None,
        *,
        eos_ids: Collection[int] = (),
        context_length: int | None = None,
        rope_switch_length: int | None = None,
        num_tokens: int | None = None,
        unused_ids: Sequence[int] = (),
        grammars: GrammarSource | None = None,
        proposers: Mapping[str, Proposer] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        config = config or EngineConfig()
        able = backend.capabilities
        limits = (context_length, able.max_context, config.max_seq_tokens)
        self._limit = min(n for n in limits if n is not None)
        self._eos_ids = frozenset(eos_ids)
        _check_grammars(grammars, vocab_size=backend.vocab_size, eos_ids=self._eos_ids)
        proposers = {"prompt_lookup": PromptLookup(), **(proposers or {})}
        check_method(config.speculation, proposers)
        check_hidden_states(proposers, able)
        self._switch = RotarySwitch(rope_switch_length)
        self._clock = clock
        self._strict = config.strict and not able.batch_invariant
        self._costs = PreemptionCosts()
        with contextlib.ExitStack() as undo:
            self._kv = make_cache(
                backend,
                config,
                max_seq_tokens=self._limit,
                whole_chunk_tokens=self._switch.side(self._limit)["min_chunk_end"],
            )
            undo.callback(self._kv.close)
            self._trace = open_trace(config, self._kv.geometry, able)
            if self._trace is not None:
                undo.callback(self._trace.close)
            self._outside = OutsidePool(self._kv, config, costs=self._costs, trace=self._trace)
            undo.callback(self._outside.close)
            self._blocks = CacheManager(
                shape_of(self._kv.geometry, able, snapshot_tokens=config.scheduler.chunk_tokens),
                prefix_reuse=config.prefix_reuse and not self._strict,
                tiers=self._outside.tiers,
            )
            max_logits_rows = max(1, _LOGITS_BYTES // (4 * backend.vocab_size))
            self._scheduler = Scheduler(
                self._scheduling(config.scheduler),
                self._blocks,
                costs=self._costs,
                max_logits_rows=max_logits_rows,
            )
            undo.pop_all()  # from here on it is for `close`
        self._executor = Executor(backend, self._kv, blocks=self._blocks, trace=self._trace)
        self._register = Register(self._scheduler, adapters=backend.adapters, trace=self._trace)
        self._adapters = backend.adapters
        job_ids = itertools.count()
        self._intake = Intake(
            backend,
            limit=self._limit,
            num_tokens=min(num_tokens or backend.vocab_size, backend.vocab_size),
            max_logits_rows=max_logits_rows,
            switch=self._switch,
            scheduler=self._scheduler,
            register=self._register,
            grammars=grammars,
            new_job_id=job_ids.__next__,
            clock=clock,
            trace=self._trace,
        )
        self._masks = MaskWorker(vocab_size=backend.vocab_size, eos_ids=sorted(self._eos_ids))
        self._speculator = Speculator(
            default=config.speculation,
            proposers=proposers,
            num_tokens=min(num_tokens or backend.vocab_size, backend.vocab_size),
            eos_ids=self._eos_ids,
            switch=self._switch,
            register=self._register,
            scheduler=self._scheduler,
            blocks=self._blocks,
            is_possible=not self._strict and (able.rewind or able.copy_blocks),
        )
        self._chooser = Chooser(
            RowSampler(eos_ids=sorted(self._eos_ids), num_tokens=num_tokens, unused_ids=unused_ids),
            masks=self._masks,
            eos_ids=self._eos_ids,
            register=self._register,
            scheduler=self._scheduler,
            blocks=self._blocks,
            new_job_id=job_ids.__next__,
            trace=self._trace,
        )
        self._settler = Settler(
            self._eos_ids,
            switch=self._switch,
            register=self._register,
            scheduler=self._scheduler,
            blocks=self._blocks,
            trace=self._trace,
        )
        self._tally = Tally()
        self._owner: int | None = None
        self._closed = False

    @property
    def has_work(self) -> bool:
        """Whether `step` has something to do or to tell."""
        return self._register.num_samples > 0 or self._register.has_untold

    @property
    def max_seq_tokens(self) -> int:
        """The longest sequence, prompt and answer together."""
        return min(self._limit, self._blocks.capacity_tokens)

    @property
    def last_step(self) -> StepStats | None:
        """The last step that was executed."""
        return self._tally.last_steps[-1] if self._tally.last_steps else None

    def prepare(self, request: EngineRequest) -> None:
        """Do what may take long before `submit`, in any thread, so that no step waits for it: compile the grammar.

        Raises:
            CapabilityError: A grammar was given, and the engine has no compiler.
            GrammarError: The grammar is wrong, impossible, not supported or too costly.
        """
        self._intake.prepare(request)

    def submit(self, request: EngineRequest) -> int:
        """Ask for answers; events with the returned number come from `step`.

        Raises:
            TokenIdError: A token id is outside the vocabulary.
            OptionError: More alternatives are to be told of a token than there are, there is no such adapter, or
                embeddings are of another width.
            CapabilityError: Embeddings were given, and the model takes none; a grammar, and the engine has no compiler; or
                speculation that it has no proposer for.
            GrammarError: The grammar is wrong, impossible, not supported or too costly.
            ContextLengthError: Prompt and answer do not fit the longest sequence.
            AdmissionError: They can never fit the cache, or too many requests wait already.
            StateError: The engine is closed, or another thread owns it.
        """
        self._own()
        self._speculator.check(request.speculation)
        return self._intake.take(request)

    def cancel(
        self, request_id: int, *, index: int | None = None, reason: FinishReason = "cancelled"
    ) -> bool:
        """End a request, or one of its samples, now; its last event comes with the next `step`.

        Args:
            request_id: Which request.
            index: Which of its samples; None: all.
            reason: What the last event says, ``stop`` where the caller found a stop text.

        Returns:
            False if there is no such request or sample, or it has ended.
        """
        self._own()
        tracked = self._register.request(request_id)
        ending = [i for i in tracked.open if index is None or i == index] if tracked else []
        for i in ending:
            assert tracked is not None
            self._register.end_index(tracked, i, reason)
        return bool(ending)

    def step(self) -> list[EngineEvent]:
        """Do one step; returns what it has to say, and what was left to say before it.

        Raises:
            StateError: The engine is closed, or another thread owns it.
        """
        self._own()
        self._expire()
        started = time.perf_counter()
        self._masks.finish()
        self._speculator.draft()
        plan = self._scheduler.plan()
        if plan is None:
            assert not self._register.num_samples, "sequences wait, and none of them can run"
            return self._register.take_untold()
        self._note(plan)
        self._chooser.prepare(plan)
        hidden_of = self._speculator.hidden_of(plan)
        planned = time.perf_counter()
        executed = self._executor.run(plan, hidden_of=hidden_of)
        executed_at = time.perf_counter()
        if plan.num_prefill_tokens and not executed.failed:
            self._costs.observe_prefill(plan.num_tokens, executed.execute_s)
        self._scheduler.done(plan)
        try:
            choices = self._chooser.choose(executed, self._speculator.drafts)
            accepted = choices.accepted(executed)
            self._speculator.conclude(plan, executed, accepted)
            self._executor.conclude(executed, plan.reservation, accepted)
            chosen_at = time.perf_counter()
            self._log_faults(executed)
            num_forced = self._settler.settle(choices, faults=executed.faults)
        except BaseException:
            self._executor.abandon(executed, plan.reservation)
            self._want_logits_again()
            raise
        total_s = time.perf_counter() - started
        self._speculator.observe(plan, executed, total_s=total_s)
        self._tally.add(
            plan,
            executed,
            generated=choices.num_tokens + num_forced,
            waiting=self._scheduler.num_waiting + self._scheduler.num_away,
            plan_s=planned - started,
            sample_s=chosen_at - executed_at,
            total_s=total_s,
            began_s=started,
        )
        return self._register.take_untold()

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Change budgets and policy; sequences over the new budgets give way in the next steps.

        Requests keep what they were granted: one that would be refused now runs alone at worst.
        """
        self._own()
        over = self._scheduler.reconfigure(self._scheduling(config))
        if over.seqs or over.cache_bytes or over.too_large:
            _log.info(
                "over the new budgets: %d sequences, %d bytes of cache, %d requests that would be refused now",
                over.seqs,
                over.cache_bytes,
                len(over.too_large),
            )
        if self._trace is not None:
            self._trace.budgets(
                max_seqs=config.max_seqs,
                max_step_tokens=config.max_step_tokens,
                chunk_tokens=config.chunk_tokens,
            )

    def load_adapter(self, adapter: Adapter) -> None:
        """Have an adapter ready for requests. The backend's own table does the same, from any thread.

        Raises:
            StateError: There is one of that name; or the engine is closed, or another thread owns it.
            ModelFileError: It does not fit the model.
            CapabilityError: The backend cannot apply it.
        """
        self._own()
        self._adapters.load(adapter)

    def unload_adapter(self, name: str) -> None:
        """Let go of an adapter; prefixes that were computed with it are of use once it comes again.

        Raises:
            OptionError: There is no such adapter.
            StateError: A request uses it; or the engine is closed, or another thread owns it.
        """
        self._own()
        self._adapters.unload(name)

    def forget_prefixes(self) -> None:
        """Let go of everything that is kept for sequences that may come."""
        self._own()
        self._blocks.forget_prefixes()

    def stats(self) -> EngineStats:
        """Everything since the engine was made."""
        return self._tally.stats(
            submitted=self._register.submitted,
            finished=dict(self._register.finished),
            waiting=self._scheduler.num_waiting + self._scheduler.num_away,
            running=self._scheduler.num_running,
            cache=self._blocks.usage(),
            speculation=self._speculator.stats(),
        )

    def view(self, *, steps: int, prefixes: int) -> EngineView:
        """The engine from inside.

        Args:
            steps: How many of the last steps at most.
            prefixes: How many known beginnings at most.
        """
        last = self._tally.last_steps
        return EngineView(
            steps=tuple(itertools.islice(last, max(0, len(last) - steps), None)),
            sequences=sequence_views(self._register.sequences(), self._blocks),
            prefixes=self._blocks.latest_prefixes(prefixes),
            block_size=self._blocks.shape.block_size,
            max_seq_tokens=self.max_seq_tokens,
            scheduling=self._scheduler.config,
        )

    def adopt(self) -> None:
        """Own the engine from now on, as any other call would do."""
        self._own()

    def hand_over(self) -> None:
        """Let another thread own the engine: the next that calls it."""
        self._own()
        self._owner = None

    def check_integrity(self) -> None:
        """Check that scheduler, blocks and samples agree; for tests."""
        self._scheduler.check_integrity()
        self._blocks.check_integrity()
        self._register.check_integrity()

    def close(self) -> None:
        """Drop all requests and release the cache. Calling it twice is harmless."""
        if self._closed:
            return
        self._own()
        self._register.drop_all()
        self._masks.close()
        self._speculator.close()
        self._closed = True
        if self._trace is not None:
            trace_usage(self._trace, self._blocks.usage())
            self._trace.close()
        self._outside.close()
        self._kv.close()

    def _own(self) -> None:
        if self._closed:
            raise StateError("this engine was closed; make a new one")
        thread = threading.get_ident()
        if self._owner is None:
            self._owner = thread
        elif self._owner != thread:
            raise StateError(
                "this engine belongs to the thread that called it first; call it from there, or let that thread "
                "say hand_over()"
            )

    def _scheduling(self, config: SchedulerConfig) -> SchedulerConfig:
        return replace(config, solo=True) if self._strict else config

    def _expire(self) -> None:
        for tracked in self._register.expired(self._clock()):
            for index in list(tracked.open):
                self._register.end_index(tracked, index, "deadline")

    def _note(self, plan: StepPlan) -> None:
        """Take over what planning did to samples."""
        for job, mode in plan.preempted:
            sample = self._register.sample(job.id)
            sample.advance(SampleState.SWAPPED if mode == "swap" else SampleState.PREEMPTED)
            _log.debug("%s gave way (%s)", sample, mode)
        for job, _ in plan.resumed:
            self._register.sample(job.id).advance(SampleState.PREFILL)
        for job, cached_tokens in plan.admitted:
            sample = self._register.sample(job.id)
            sample.advance(SampleState.PREFILL)
            sample.cached_tokens = cached_tokens
            sample.queued_s = time.perf_counter() - self._register.tracked(sample).accepted_s
        if self._trace is not None:
            trace_plan(self._trace, plan, self._blocks)

    def _log_faults(self, executed: Executed) -> None:
        for job, error in executed.faults:
            _log.warning("%s failed: %s", self._register.sample(job.id), error)

    def _want_logits_again(self) -> None:
        """Choosing was interrupted: what logits were wanted of, and not looked at, is computed again."""
        for job in self._register.jobs():
            wanted = len(job.tokens) - 1 if job.logits_from is None else job.logits_from
            if job.state is JobState.RUNNING and self._blocks.length(job.id) > wanted:
                self._blocks.rewind(job.id, wanted)
                if self._trace is not None:
                    trace_restart(self._trace, job, self._blocks)


def _check_grammars(grammars: GrammarSource | None, *, vocab_size: int, eos_ids: frozenset[int]) -> None:
    if grammars is None:
        return
    if grammars.vocab_size != vocab_size or frozenset(grammars.eos_ids) != eos_ids:
        raise ConfigError(
            f"the compiler of grammars is made for {grammars.vocab_size} tokens and the ends {sorted(grammars.eos_ids)}, the "
            f"engine has {vocab_size} and {sorted(eos_ids)}; make it with these"
        )
