"""Who takes part in the next step, and with how many tokens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain, islice

from onnxgen.kvcache.base import Extra
from onnxgen.kvcache.manager import CacheManager
from onnxgen.scheduler.admission import Admission, admit, refuse_when_full
from onnxgen.scheduler.chunks import Chunk, next_chunk
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.drafts import add_drafts
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.overage import Overage
from onnxgen.scheduler.plan import Slice, StepPlan
from onnxgen.scheduler.policies import make_policy, policy_changes
from onnxgen.scheduler.preemption import come_back, give_way, who_gives_way
from onnxgen.scheduler.room import Room
from onnxgen.scheduler.roster import Roster


class Scheduler:
    """Plans one step after the other.

    Claims are fixed when a job is admitted, so among those who run the same one is on top until it is done. It
    never gives way, and whoever comes back is spared until it has gained a token: so all come to an end.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cache: CacheManager,
        *,
        costs: PreemptionCosts,
        max_logits_rows: int | None = None,
    ) -> None:
        """A scheduler without jobs.

        Args:
            config: Budgets and rules.
            cache: Where the sequences of its jobs are opened, grown, swapped and released, by nobody else.
            costs: Estimates for ``preemption="auto"``, to which the caller adds what it measures.
            max_logits_rows: Tokens of a step at most that all give logits (`Job.logits_from`), whose memory adds up;
                None: as many as a step takes. A chunk that must not end earlier (`Job.min_chunk_end`) is exempt.

        Raises:
            ConfigError: An unknown policy, or a budget that the cache cannot count.
        """
        self._config = config
        self._cache = cache
        self._costs = costs
        self._policy = make_policy(config)
        self._room = Room(config, cache)
        self._roster = Roster(self._policy)
        self._num_added = 0
        self._step = 0
        self._max_logits_rows = max_logits_rows
        self._left = 0  # tokens that the step being planned may still take
        self._left_rows = 0  # and how many of those may all give logits
        self._unreported: StepPlan | None = None  # what happened in a plan that came to nothing

    @property
    def config(self) -> SchedulerConfig:
        """Budgets and rules as they are now."""
        return self._config

    def plan(self) -> StepPlan | None:
        """Decide the next step, and reserve its blocks. None: no job can go on.

        The caller commits or rolls back each slice, and calls `done` after commits, before it plans again.
        """
        plan = StepPlan(self._cache.begin_step())
        self._step += 1
        self._shrink_to_budgets(plan)
        self._fill_from_lanes(plan)
        if not plan.slices and plan.resumed:  # who has come back for nothing can make others give way now
            self._fill_from_lanes(plan)
        return self._reported(plan)

    def _fill_from_lanes(self, plan: StepPlan) -> None:
        for lane in tuple(self._roster.lanes):
            self._left = self._config.max_step_tokens
            self._left_rows = self._left if self._max_logits_rows is None else self._max_logits_rows
            if self._config.solo:
                self._fill_with_one(plan, lane)
            else:
                self._fill(plan, lane)
            if plan.slices:
                self._roster.give_turn_away(lane)
                return

    def _fill(self, plan: StepPlan, lane: Hashable) -> None:
        prefills: list[Job] = []
        for job in tuple(self._roster.running):
            if job.lane == lane and job.state is JobState.RUNNING:
                context_len = self._cache.length(job.id)
                if len(job.tokens) - context_len > 1:
                    prefills.append(job)
                else:
                    self._advance(plan, job, context_len)
        for job in prefills:
            if job.state is JobState.RUNNING:
                self._advance(plan, job, self._cache.length(job.id))
        self._start_others(plan, lane)
        add_drafts(
            plan,
            self._room,
            running=self._roster.running,
            most_tokens=self._left,
            most_logits=self._left_rows,
            longest=self._config.chunk_tokens - 1,
        )

    def _fill_with_one(self, plan: StepPlan, lane: Hashable) -> None:
        """Whose last step is longest ago goes on; in every other step somebody who does not run goes before."""
        if self._step % 2:
            self._start_others(plan, lane)
        for job in sorted(self._roster.running, key=lambda job: job.last_step):
            if not plan.slices and job.lane == lane and job.state is JobState.RUNNING:
                self._advance(plan, job, self._cache.length(job.id))
        self._start_others(plan, lane)

    def _advance(self, plan: StepPlan, job: Job, context_len: int) -> None:
        """Let a running job go on. When there are no blocks for it lower claims give way, or it waits."""
        chunk = self._next_chunk(plan, job, context_len)
        while chunk.num_tokens > 0 and not self._reserve(plan, job, context_len, chunk):
            loser = who_gives_way(job, self._roster.running, self._cache, step=self._step)
            if loser is None or self._config.preemption == "off":
                return
            self._preempt(plan, loser)

    def _start_others(self, plan: StepPlan, lane: Hashable) -> None:
        """Those who gave way come back, then newcomers are admitted, in order and as long as there is room."""
        if plan.preempted or not self._room.free_seats(self._roster.running):
            return
        newcomers = islice(self._roster.waiting(), self._config.max_seqs)
        for job in chain(tuple(self._roster.away), newcomers):
            if self._left <= 0 or (self._config.solo and plan.slices):
                return
            if job.state is JobState.WAITING and (self._lacks_rows(job) or self._waits_for_neighbour(job)):
                continue
            if not self._has_room(plan, job):
                return
            if job.lane == lane and not self._start(plan, job):
                return

    def _start(self, plan: StepPlan, job: Job) -> bool:
        """Let a job run that does not; False, and nothing changed, if a step has no room for it after all."""
        cached = come_back(job, self._cache)
        chunk = self._next_chunk(plan, job, cached)
        has_blocks = not self._room.missing_blocks(job, debt=self._debt(plan), reused=cached, is_open=True)
        started = has_blocks and chunk.num_tokens > 0 and self._reserve(plan, job, cached, chunk)
        if not started and job.state is not JobState.SWAPPED:
            self._cache.release(job.id, None)
            return False
        if job.state is JobState.WAITING:
            job.claim = self._policy.rank(job), job.arrival
            self._roster.move(job, JobState.RUNNING)
            self._policy.charge(job, len(job.tokens) - cached)
            job.charged = len(job.tokens)
            plan.admitted.append((job, cached))
        else:
            job.goal = len(job.tokens)
            self._roster.move(job, JobState.RUNNING)
            plan.resumed.append((job, cached))
        return True

    def _next_chunk(self, plan: StepPlan, job: Job, context_len: int) -> Chunk:
        only_single_tokens = self._config.max_step_tokens - self._left == len(plan.slices)
        left = self._left
        if job.logits_from is not None:
            unasked = job.logits_from - context_len  # tokens of which nobody wants logits
            left = min(left, unasked if unasked > 0 else self._left_rows)
        return next_chunk(job, context_len, config=self._config, left=left, is_first=only_single_tokens)

    def _lacks_rows(self, job: Job) -> bool:
        """Whether all that ``job`` has to compute gives logits, and the step has no room for these."""
        if job.logits_from is None or self._left_rows > 0:
            return False
        reused = self._cache.would_reuse(job.tokens, extra=job.extra, reuse_limit=job.logits_from)
        return reused == job.logits_from

    def _reserve(self, plan: StepPlan, job: Job, context_len: int, chunk: Chunk) -> bool:
        """Put ``chunk`` into the step, or the least of it that will do, if there are blocks for it."""
        granted = more = plan.reservation.extend(job.id, chunk.num_tokens)
        while more and granted < chunk.least:  # a snapshot that falls due within the least is not taken
            more = plan.reservation.extend(job.id, chunk.least - granted)
            granted += more
        if granted < chunk.least:
            if granted:
                plan.reservation.withdraw(job.id)
            return False
        part = Slice(job, context_len, granted)
        plan.slices.append(part)
        job.last_step = self._step
        self._left -= granted
        if job.logits_from is not None and part.wants_all_logits:
            self._left_rows -= granted
        return True

    def _preempt(self, plan: StepPlan, job: Job) -> None:
        mode = give_way(job, self._cache, config=self._config, room=self._room, costs=self._costs)
        self._roster.move(job, JobState.SWAPPED if mode == "swap" else JobState.PREEMPTED)
        plan.preempted.append((job, mode))

    def _shrink_to_budgets(self, plan: StepPlan) -> None:
        """Growth, forks or a new configuration may have put those who run over their budgets."""
        running = self._roster.running
        while len(running) > 1 and self._room.overdrawn(running):
            self._preempt(plan, running[-1])

    def _has_room(self, plan: StepPlan, job: Job) -> bool:
        if not self._room.within_budgets(job, self._roster.running):
            return False
        debt = self._debt(plan)
        if not self._room.missing_blocks(job, debt=debt, reused=0, is_open=False):
            return True
        shared = self._cache.would_share(job.tokens, extra=job.extra, reuse_limit=job.logits_from)
        return shared > 0 and not self._room.missing_blocks(job, debt=debt, reused=shared, is_open=False)

    def _debt(self, plan: StepPlan) -> int:
        """Blocks that those who run will ask for: for the rest of their prompts, and to grow a little."""
        debt = 0
        for job in self._roster.running:
            holder = plan.reservation if job.last_step == self._step else self._cache
            debt += self._room.debt(job, num_held=len(holder.blocks(job.id)))
        return debt

    def _waits_for_neighbour(self, job: Job) -> bool:
        """Whether somebody computes a prefix right now that ``job`` could use."""
        if not self._config.wait_for_prefix or not self._roster.running:
            return False
        coming = self._cache.coming_prefix(job.tokens, extra=job.extra, reuse_limit=job.logits_from)
        return coming > 0

    def _reported(self, plan: StepPlan) -> StepPlan | None:
        """The plan, with what happened in those before it that came to nothing; None if it comes to nothing, too."""
        if self._unreported is not None:
            plan.resumed[:0] = self._unreported.resumed
            plan.preempted[:0] = self._unreported.preempted
        self._unreported = None if plan.slices else plan
        return plan if plan.slices else None

    def done(self, plan: StepPlan) -> None:
        """What ``plan`` says was committed, so tenants pay for it. Not for a plan that failed as a whole."""
        for part in plan.slices:
            job = part.job
            if part.end > job.charged:  # tokens of a draft that count are paid for with the step that follows
                self._policy.charge(job, part.end - job.charged)
                job.charged = part.end

    def add(self, job: Job) -> Admission:
        """Let a job wait for its first step.

        Returns:
            How many tokens it may have; ``job.max_tokens`` says the same from now on.

        Raises:
            NeverFitsError: It would not fit even if it were alone.
            QueueFullError: Too many wait already.
        """
        free_seats = self._room.free_seats(self._roster.running)
        refuse_when_full(self._config, num_waiting=self.num_waiting, free_seats=free_seats)
        admission = admit(job, self._room)
        job.max_tokens = admission.max_tokens
        job.prompt_tokens = len(job.tokens)
        self._number(job)
        self._roster.enter(job)
        return admission

    def fork(self, parent: Job, child: Job) -> bool:
        """Let ``child`` go on from where ``parent`` is, with the parent's claim and out of the parent's width.

        Returns:
            Whether it runs. If the parent had to give way, or no seat is free, it comes back like those who gave way.
        """
        assert parent.state is not JobState.WAITING, f"job {parent.id} has nothing yet that could be forked"
        parent.width = max(1, parent.width - child.width)
        child.prompt_tokens = parent.prompt_tokens
        child.charged = parent.charged
        self._number(child)
        child.claim = parent.claim[0], child.arrival
        runs = parent.state is JobState.RUNNING and self._room.has_seat(child, self._roster.running)
        if runs:
            self._cache.fork(parent.id, child.id)
        self._roster.enter_fork(child, JobState.RUNNING if runs else JobState.PREEMPTED)
        return runs

    def remove(self, job: Job, *, keep: bool) -> None:
        """A job is finished, cancelled or failed. Not for one whose slice is neither committed nor rolled back.

        Args:
            job: In whatever state.
            keep: What the cache holds of it may be reused by others.
        """
        if job.state in (JobState.RUNNING, JobState.SWAPPED):
            self._cache.release(job.id, job.tokens if keep else None)
        self._roster.leave(job)

    def restart(self, job: Job, *, lane: Hashable, extra: Extra, min_chunk_end: int) -> None:
        """What the cache holds of a job is of no use any more: it is computed again, with other content, in another lane.

        Args:
            job: One that was added, whose slice, if it had one, is committed.
            lane: Its lane from now on.
            extra: What its content depends on from now on.
            min_chunk_end: See `Job`.
        """
        self._roster.change_lane(job, lane)
        job.extra, job.min_chunk_end = extra, min_chunk_end
        if job.state is JobState.WAITING or job.state is JobState.PREEMPTED:
            return
        self._cache.release(job.id, None)
        if job.state is JobState.SWAPPED:
            self._roster.move(job, JobState.PREEMPTED)
        else:
            self._cache.open(job.id, job.tokens, extra=extra, reuse_limit=job.logits_from)

    def reconfigure(self, config: SchedulerConfig) -> Overage:
        """Plan by other budgets and rules from now on; jobs keep what they were granted.

        Raises:
            ConfigError: As when a scheduler is made; nothing has changed then.
        """
        room = Room(config, self._cache)
        if policy_changes(self._config, config):
            self._policy = make_policy(config)
            self._roster.change_policy(self._policy)
        self._config, self._room = config, room
        return room.overage(self._roster.running, self.jobs)

    @property
    def jobs(self) -> Sequence[Job]:
        """All of them: running, away, waiting."""
        return (*self._roster.running, *self._roster.away, *self._roster.waiting())

    @property
    def running(self) -> Sequence[Job]:
        """Who runs, highest claim first."""
        return tuple(self._roster.running)

    @property
    def num_running(self) -> int:
        """How many run."""
        return len(self._roster.running)

    @property
    def num_waiting(self) -> int:
        """How many newcomers wait for admission."""
        return self._roster.num_waiting

    @property
    def num_away(self) -> int:
        """How many gave way and come back."""
        return len(self._roster.away)

    def check_integrity(self) -> None:
        """Every job is in one place and in order, and those whom the cache should hold are there.

        Raises:
            AssertionError: Says what is wrong.
        """
        self._roster.check_integrity()
        for job in self._roster.running:
            assert self._cache.length(job.id) <= len(job.tokens), (
                f"the cache has more tokens than job {job.id}"
            )
            assert job.logits_from is None or self._cache.length(job.id) <= job.logits_from, (
                f"job {job.id} went past logits that are wanted of it"
            )
            assert not self._cache.is_swapped(job.id), f"job {job.id} runs and is swapped out"
        for job in self._roster.away:
            if job.state is JobState.SWAPPED:
                assert self._cache.is_swapped(job.id), (
                    f"job {job.id} is swapped out, but the cache has it not so"
                )

    def _number(self, job: Job) -> None:
        job.arrival = self._num_added
        job.since = self._step
        self._num_added += 1
