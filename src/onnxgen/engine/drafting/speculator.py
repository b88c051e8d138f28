"""`Speculator`: sees to it that the sequences of a step have drafts, and learns from what became of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from onnxgen.backends.base import Capabilities
from onnxgen.engine.drafting.drafter import Drafter, Room
from onnxgen.engine.drafting.following import Following
from onnxgen.engine.execution import Executed
from onnxgen.engine.register import Register
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.rotary_switch import RotarySwitch
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.speculation.acceptance_rates import AcceptanceRates
from onnxgen.engine.speculation.asking import AskedProposer
from onnxgen.engine.speculation.base import Draft, Proposer
from onnxgen.engine.speculation.control import DraftLengths
from onnxgen.engine.speculation.options import Speculation
from onnxgen.engine.speculation.stats import SpeculationStats
from onnxgen.errors import CapabilityError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.plan import Slice, StepPlan
from onnxgen.scheduler.scheduler import Scheduler

_BY_PREFERENCE = ("heads", "draft_model", "prompt_lookup")
"""What ``auto`` stands for: the first that there is."""

_OBSERVED_STEPS = 8
"""Of so many steps without drafts in a row the times of two are looked at."""

_MEMORY = 256
"""Drafts of all sequences that count for what one of a new sequence is thought to bring, about."""


class Speculator:
    """Drafts of one engine.

    Not all sequences can have some: Mirostat learns from every single draw, and processors and samplers of a request's own
    are called for one token after the other. They are decoded as if nothing had been asked for. So is everybody under
    ``EngineConfig.strict``, which is about the bits of single rows, and on a backend whose states can neither be gone back
    to nor copied.

    Args:
        default: For requests that do not say.
        proposers: What there is, by method.
        num_tokens: Token ids are below it.
        eos_ids: Tokens that end answers.
        switch: No step computes tokens on both sides of it.
        register: Knows whose sequences they are.
        scheduler: Knows who runs.
        blocks: Knows what is computed.
        is_possible: False: nobody gets drafts.

    Attributes:
        drafts: Of this step, by the id of the job; their beginnings are `Job.draft`.
    """

    def __init__(
        self,
        *,
        default: Speculation,
        proposers: Mapping[str, Proposer],
        num_tokens: int,
        eos_ids: frozenset[int],
        switch: RotarySwitch,
        register: Register,
        scheduler: Scheduler,
        blocks: CacheManager,
        is_possible: bool,
    ) -> None:
        self.drafts: dict[int, Draft] = {}
        self._default = default
        self._switch = switch
        self._register = register
        self._scheduler = scheduler
        self._blocks = blocks
        self._is_possible = is_possible
        self._proposers = {
            method: AskedProposer(method, proposer, num_tokens=num_tokens)
            for method, proposer in proposers.items()
        }
        self._rates = {method: AcceptanceRates(memory=_MEMORY) for method in proposers}
        self._lengths = DraftLengths(rows_twice=blocks.shape.exact)
        self._drafter = Drafter(self._lengths, eos_ids=eos_ids)
        self._followed: dict[int, Following | None] = {}
        self._drafted: list[Job] = []
        self._num_ended = 0
        self._is_wanted = default.method != "off"
        self._verify_s = 0.0
        self._verify_steps = 0
        self._draft_s = 0.0
        self._plain_steps = 0

    @property
    def is_wanted(self) -> bool:
        """Whether anybody has asked for drafts so far."""
        return self._is_wanted

    def check(self, speculation: Speculation | None) -> None:
        """Refuse what there is nothing for.

        Raises:
            CapabilityError: The engine has no proposer for the method.
        """
        if speculation is not None:
            check_method(speculation, self._proposers)
            self._is_wanted |= speculation.method != "off"

    def hidden_of(self, plan: StepPlan) -> frozenset[int]:
        """Ids of the jobs of a step whose hidden states are of use."""
        if not self._is_wanted or not self._is_possible:
            return frozenset()
        followed = ((part.job.id, self._following(part.job.id)) for part in plan.slices)
        return frozenset(
            job_id for job_id, each in followed if each is not None and each.proposer.needs_hidden_states
        )

    def draft(self) -> None:
        """Get drafts for the next step, before it is planned."""
        if not self._is_wanted or not self._is_possible:
            return
        started = time.perf_counter()
        for job in self._drafted:
            job.draft = ()
        self._drafted.clear()
        self.drafts.clear()
        self._forget_ended()
        deciding = [job for job in self._scheduler.running if self._is_about_to_decode(job)]
        room: list[Room] = []
        for job in deciding:
            following = self._following(job.id)
            if following is None or not following.proposer.works:
                continue
            if following.is_quiet and following.options.adaptive:
                continue
            most = self._most_tokens(job, following.options)
            if most > 0:
                following.look_back()
                room.append(Room(job, following, most))
        for job, draft in self._drafter.drafts(room, num_seqs=len(deciding)):
            self.drafts[job.id] = draft
            job.draft = draft.tokens
            self._drafted.append(job)
        self._draft_s = time.perf_counter() - started

    def conclude(self, plan: StepPlan, executed: Executed, accepted: Mapping[int, Sequence[int]]) -> None:
        """Learn from a step that was executed, before its tokens are appended.

        Args:
            plan: The step.
            executed: What became of it.
            accepted: As for `Executor.conclude`.
        """
        if not self._is_wanted:
            return
        if executed.failed:  # maybe because of a draft
            for job in self._drafted:
                self._give_up(job.id)
        if plan.num_draft_tokens:
            self._verify_steps += 1
            self._verify_s += executed.execute_s
        for part, rows in executed.prompt_states:
            following = self._followed.get(part.job.id)
            if following is not None:
                following.keep_hidden(rows, end=part.context_len + len(rows))
        row = 0
        for part in executed.finished:
            start, row = row, row + 1 + part.num_draft
            following = self._followed.get(part.job.id)
            if following is None:
                continue
            chosen = accepted.get(part.job.id, ())
            if executed.hidden_states is not None and following.proposer.needs_hidden_states:
                count = max(len(chosen), 1)
                rows = executed.hidden_states[start : start + count]
                following.keep_hidden(rows, end=part.end + count - 1)
            if part.num_draft and chosen:
                self._note_accepted(part, following, len(chosen) - 1)

    def observe(self, plan: StepPlan, executed: Executed, *, total_s: float) -> None:
        """A step took so long, from its beginning to its end."""
        draft_s, self._draft_s = self._draft_s, 0.0
        if not self._is_wanted or plan.num_prefill_tokens or executed.failed:
            return
        num_draft = plan.num_draft_tokens
        self._plain_steps = 0 if num_draft else self._plain_steps + 1
        if num_draft or self._plain_steps % _OBSERVED_STEPS < 2:
            self._lengths.observe(rows=len(plan.slices) + num_draft, seconds=max(total_s - draft_s, 1e-9))

    def stats(self) -> SpeculationStats:
        """Everything since the engine was made."""
        return SpeculationStats(
            by_method={method: proposer.stats() for method, proposer in self._proposers.items()},
            verify_s=self._verify_s,
            verify_steps=self._verify_steps,
            switched_off=self._drafter.switched_off,
            switched_on=self._drafter.switched_on,
        )

    def close(self) -> None:
        """Let proposers go of what they hold. They stay the caller's."""
        for job_id in self._followed:
            self._give_up(job_id)
        self._followed.clear()

    def _following(self, job_id: int) -> Following | None:
        """What is known of a sequence; None: it gets no drafts."""
        if job_id not in self._followed:
            sample = self._register.sample(job_id)
            self._followed[job_id] = self._begin(sample)
        return self._followed[job_id]

    def _begin(self, sample: Sample) -> Following | None:
        options = sample.request.speculation or self._default
        method = options.method
        if method == "auto":
            method = next((each for each in _BY_PREFERENCE if each in self._proposers), "off")
        if method == "off" or not _can_have_drafts(sample.request):
            return None
        return Following(sample, options, self._proposers[method], others=self._rates[method])

    def _give_up(self, job_id: int) -> None:
        """Draft no more for a sequence."""
        following = self._followed.get(job_id)
        self._followed[job_id] = None
        if following is not None:
            following.proposer.forget(job_id)

    def _is_about_to_decode(self, job: Job) -> bool:
        return (
            len(job.tokens) - self._blocks.length(job.id) == 1
            and job.logits_from is None
            and self._register.sample(job.id).state is SampleState.DECODE
        )

    def _most_tokens(self, job: Job, options: Speculation) -> int:
        """The longest draft of a sequence: one token of the answer comes behind it."""
        known = len(job.tokens)
        return min(options.max_draft_tokens, job.max_tokens - known - 1, self._switch.tokens_before(known))

    def _forget_ended(self) -> None:
        num_ended = self._register.num_ended
        if num_ended != self._num_ended:
            self._num_ended = num_ended
            for job_id in [each for each in self._followed if not self._register.knows(each)]:
                self._give_up(job_id)
                del self._followed[job_id]

    def _note_accepted(self, part: Slice, following: Following, accepted: int) -> None:
        draft = self.drafts[part.job.id]
        following.sample.draft_tokens += part.num_draft
        following.sample.accepted_draft_tokens += accepted
        following.proposer.note(verified=part.num_draft, accepted=accepted)
        following.rates.observe(draft.kind, proposed=part.num_draft, accepted=accepted)


def check_method(speculation: Speculation, methods: Collection[str]) -> None:
    """Refuse a method that an engine does not have.

    Args:
        speculation: What is asked for.
        methods: What there is.

    Raises:
        CapabilityError: It is not among these.
    """
    if speculation.method not in ("off", "auto", *methods):
        raise CapabilityError(
            f"speculation {speculation.method!r} was asked for, and this engine has only {', '.join(sorted(methods))}; a "
            "draft model is given when the model is opened, and heads are used where the engine's configuration asks for them"
        )


def check_hidden_states(proposers: Mapping[str, Proposer], able: Capabilities) -> None:
    """Refuse proposers that need what a model's backend does not give.

    Raises:
        CapabilityError: Naming the method.
    """
    needing = [method for method, proposer in proposers.items() if proposer.needs_hidden_states]
    if needing and not able.hidden_states:
        raise CapabilityError(
            f"speculation by {needing[0]} needs hidden states, and this model's graph gives none that could be found"
        )


def _can_have_drafts(request: EngineRequest) -> bool:
    return not request.processors and request.sampler is None and not request.sampling.mirostat
