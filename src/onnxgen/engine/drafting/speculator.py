"""`Speculator`: gets drafts for the sequences of a step, and learns from what became of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from onnxgen.backends.base import Capabilities
from onnxgen.engine.drafting.following import Following
from onnxgen.engine.execution import Executed
from onnxgen.engine.register import Register
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.rotary_switch import RotarySwitch
from onnxgen.engine.sample import Sample, SampleState
from onnxgen.engine.speculation.acceptance_rates import AcceptanceRates
from onnxgen.engine.speculation.asking import AskedProposer
from onnxgen.engine.speculation.base import Draft, Proposer, Wanted
from onnxgen.engine.speculation.control import DraftLengths, Offer
from onnxgen.engine.speculation.drafts import shortened
from onnxgen.engine.speculation.options import Speculation
from onnxgen.engine.speculation.stats import SpeculationStats
from onnxgen.errors import CapabilityError, GrammarError
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.plan import Slice, StepPlan
from onnxgen.scheduler.scheduler import Scheduler

_BY_PREFERENCE = ("heads", "draft_model", "prompt_lookup")
"""What ``auto`` stands for: the first that there is."""

_CHEAP = frozenset({"prompt_lookup"})
"""Methods whose guesses take next to no time: made for every step, and computed as far as they promise to pay."""

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
        self._eos_ids = eos_ids
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
        self._followed: dict[int, Following | None] = {}
        self._drafted: list[Job] = []
        self._num_ended = 0
        self._is_wanted = default.method != "off"
        self._verify_s = 0.0
        self._verify_steps = self._switched_off = self._switched_on = 0
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
        room: list[tuple[Job, Following, int]] = []
        for job in deciding:
            following = self._following(job.id)
            if following is None or not following.proposer.works:
                continue
            if following.is_quiet and following.options.adaptive:
                continue
            most = self._most_tokens(job, following.options)
            if most > 0:
                following.look_back()
                room.append((job, following, most))
        if room:
            self._propose(room, num_seqs=len(deciding))
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
            switched_off=self._switched_off,
            switched_on=self._switched_on,
        )

    def close(self) -> None:
        """Let proposers go of what they hold. They stay the caller's."""
        for job_id in self._followed:
            self._give_up(job_id)
        self._followed.clear()

    # who gets a draft

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

    # drafts, and how much of them is computed

    def _propose(self, room: Sequence[tuple[Job, Following, int]], *, num_seqs: int) -> None:
        cheap = [each for each in room if each[1].proposer.method in _CHEAP]
        costly = [each for each in room if each[1].proposer.method not in _CHEAP]
        rows = num_seqs
        if costly:
            rows += self._propose_costly(costly, num_seqs=num_seqs)
        if cheap:
            self._propose_cheap(cheap, num_seqs=num_seqs, rows=rows)

    def _propose_cheap(self, room: Sequence[tuple[Job, Following, int]], *, num_seqs: int, rows: int) -> None:
        """Guess, and then see how much of it is worth computing."""
        guessed: list[tuple[Job, Following, Draft]] = []
        for job, following, draft in self._ask(room):
            fitting = self._fitting(following, draft)
            if fitting is None:
                following.note_asked(0)
            else:
                guessed.append((job, following, fitting))
        if not guessed:
            return
        offers = [_offer(following, draft.kind, len(draft.tokens)) for _, following, draft in guessed]
        lengths = self._lengths.choose(offers, num_seqs=num_seqs, rows=rows)
        for (job, following, draft), length in zip(guessed, lengths, strict=True):
            length = self._decided(following, length, most=len(draft.tokens))
            following.note_asked(length)
            if not length:
                following.watch(draft)
            self._hand_out(job, shortened(draft, length))

    def _propose_costly(self, room: Sequence[tuple[Job, Following, int]], *, num_seqs: int) -> int:
        """See how many tokens would be worth computing, and guess these; returns how many were guessed."""
        offers = [
            _offer(following, 0, most, seconds_per_token=following.proposer.seconds_per_token)
            for _, following, most in room
        ]
        chosen = self._lengths.choose(offers, num_seqs=num_seqs, rows=num_seqs)
        asked: list[tuple[Job, Following, int]] = []
        for (job, following, most), length in zip(room, chosen, strict=True):
            length = self._decided(following, length, most=most)
            length = following.trial(length, most=most)
            if length:
                asked.append((job, following, length))
        rows = 0
        for job, following, draft in self._ask(asked):
            fitting = self._fitting(following, draft)
            self._hand_out(job, fitting)
            rows += 0 if fitting is None else len(fitting.tokens)
        return rows

    def _ask(
        self, room: Sequence[tuple[Job, Following, int]]
    ) -> Iterable[tuple[Job, Following, Draft | None]]:
        """Ask each proposer once, for all of its sequences."""
        by_proposer: dict[AskedProposer, list[tuple[Job, Following, int]]] = {}
        for each in room:
            by_proposer.setdefault(each[1].proposer, []).append(each)
        for proposer, group in by_proposer.items():
            wanted = [
                Wanted(
                    key=job.id,
                    history=following.sample.history,
                    num_tokens=most,
                    row=following.sample,
                    min_match=following.options.min_match,
                    hidden=following.take_hidden() if proposer.needs_hidden_states else None,
                    mask_source=following.sample.grammar,
                    extra=job.extra,
                )
                for job, following, most in group
            ]
            for (job, following, _), draft in zip(group, proposer.propose(wanted), strict=True):
                yield job, following, draft

    def _fitting(self, following: Following, draft: Draft | None) -> Draft | None:
        """The beginning of a draft that an answer can have: up to what ends it, and to what its grammar forbids."""
        if draft is None:
            return None
        sample = following.sample
        ends = sample.request.stop_token_ids
        if not sample.request.ignore_eos or ends:
            own = self._eos_ids if not sample.request.ignore_eos else frozenset[int]()
            length = next(
                (at for at, token in enumerate(draft.tokens) if token in own or token in ends),
                len(draft.tokens),
            )
            draft = shortened(draft, length)
        if draft is None or sample.grammar is None:
            return draft
        try:
            sample.grammar.follow(sample.answer)
            return shortened(draft, sample.grammar.valid_prefix(draft.tokens))
        except GrammarError:  # the step says so in its own time
            return None

    def _decided(self, following: Following, length: int, *, most: int) -> int:
        if not following.options.adaptive:
            return most
        if following.note_worth(length):
            self._switched_off += following.is_off
            self._switched_on += not following.is_off
        return length

    def _hand_out(self, job: Job, draft: Draft | None) -> None:
        if draft is not None:
            self.drafts[job.id] = draft
            job.draft = draft.tokens
            self._drafted.append(job)

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
            f"speculation {speculation.method!r} was asked for, and this engine has only {', '.join(sorted(methods))}"
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


def _offer(following: Following, kind: int, length: int, *, seconds_per_token: float = 0.0) -> Offer:
    return Offer(following.rates.chances(kind, length), seconds_per_token)
