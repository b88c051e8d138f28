"""A loop that does what an engine does with a scheduler and a cache, without a model: tokens are counted out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.manager import CacheManager
from onnxgen.kvcache.tiers import Piece, Tiers
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.job import Job, JobState
from onnxgen.scheduler.overage import Overage
from onnxgen.scheduler.plan import Slice, StepPlan
from onnxgen.scheduler.scheduler import Scheduler


@dataclass(slots=True, eq=False)
class Run:
    """A job, how long it gets, and what happened to it."""

    job: Job
    final: int
    added: int
    admitted: int | None = None
    ended: int | None = None
    token_steps: list[int] = field(default_factory=list)
    num_preempted: int = 0


class Memory:
    """Moves blocks that have no content, at ten bytes a token; some of them come back no more when ``loses`` says so."""

    def __init__(self, loses: Callable[[], bool] = lambda: False):
        self.loses = loses
        self.kept: set[int] = set()

    def save(self, key: int, pieces: Sequence[Piece]) -> int | None:
        self.kept.add(key)
        return 10 * sum(piece.num_tokens for piece in pieces)

    def to_disk(self, key: int) -> bool:
        return not self.loses()

    def load(self, key: int, pieces: Sequence[Piece]) -> bool:
        assert key in self.kept
        return not self.loses()

    def forget(self, key: int) -> None:
        self.kept.remove(key)


class Loop:
    """Adds jobs, plans steps, commits them and appends a token to each that reached its end."""

    def __init__(
        self,
        config: SchedulerConfig,
        shape: PoolShape,
        *,
        costs: PreemptionCosts | None = None,
        max_logits_rows: int | None = None,
        drafts: random.Random | None = None,
        **cache,
    ):
        self.shape = shape
        self.drafts = drafts
        self.cache = CacheManager(shape, **cache)
        self.max_logits_rows = max_logits_rows
        self.scheduler = Scheduler(
            config, self.cache, costs=costs or PreemptionCosts(), max_logits_rows=max_logits_rows
        )
        self.config = config
        self.runs: dict[int, Run] = {}
        self.live: dict[int, Run] = {}
        self.step_number = 0
        self.last: StepPlan | None = None

    def add(
        self,
        prompt: int | Sequence[int],
        final: int | None = None,
        *,
        max_tokens: int | None = None,
        **fields,
    ) -> Run:
        """A job with a prompt of so many tokens, unlike all others; it grows to ``final`` tokens."""
        number = len(self.runs)
        tokens = [number * 100_000 + i for i in range(prompt)] if isinstance(prompt, int) else list(prompt)
        final = len(tokens) + 1 if final is None else final
        job = Job(number, tokens, max_tokens=max_tokens or final, **fields)
        self.scheduler.add(job)
        return self._keep(job, min(final, job.max_tokens))

    def fork(self, run: Run, final: int) -> Run:
        """A child that has the parent's tokens, the last one differing, and grows to ``final`` tokens."""
        number = len(self.runs)
        tokens = [*run.job.tokens[:-1], number * 100_000 + 99_999]
        child = Job(
            number, tokens, max_tokens=max(final, len(tokens)), lane=run.job.lane, tenant=run.job.tenant
        )
        self.scheduler.fork(run.job, child)
        return self._keep(child, final)

    def cancel(self, run: Run) -> None:
        """It is no longer wanted."""
        self.scheduler.remove(run.job, keep=True)
        del self.live[run.job.id]

    def reconfigure(self, **config) -> Overage:
        """Go on with other rules."""
        self.config = SchedulerConfig(**config)
        return self.scheduler.reconfigure(self.config)

    def plan(self) -> StepPlan | None:
        """Plan, and check what holds of every plan."""
        self.step_number += 1
        if self.drafts is not None:
            for job in self.scheduler.running:
                job.draft = self._draft(job, self.drafts)
        plan = self.scheduler.plan()
        self.last = plan
        if plan is not None:
            self._check(plan)
            for job, _ in plan.admitted:
                self.runs[job.id].admitted = self.step_number
            for job, _ in plan.preempted:
                self.runs[job.id].num_preempted += 1
        return plan

    def commit(self, plan: StepPlan) -> None:
        """The step succeeded: tokens are appended, and jobs that are long enough end."""
        accepted = {part.job.id: self._accept(part, plan) for part in plan.slices}
        self.scheduler.done(plan)
        for part in plan.slices:
            job = part.job
            if job.logits_from is not None:
                end = max(job.logits_from, part.end)
                job.logits_from = end if end < job.prompt_tokens - 1 else None
            if part.end < len(job.tokens):
                continue
            run = self.runs[job.id]
            job.tokens += accepted[job.id]
            job.tokens.append(_next_token(job, len(job.tokens)))
            run.token_steps.append(self.step_number)
            if len(job.tokens) >= run.final:
                run.ended = self.step_number
                self.scheduler.remove(job, keep=True)
                del self.live[job.id]

    def _accept(self, part: Slice, plan: StepPlan) -> Sequence[int]:
        """Commit a slice as far as it counts; returns the tokens of its draft that do."""
        job, draft = part.job, part.job.draft[: part.num_draft]
        if not draft:
            plan.reservation.commit(job.id, job.tokens)
            return ()
        expected = [_next_token(job, len(job.tokens) + i) for i in range(len(draft))]
        count = next((i for i, (a, b) in enumerate(zip(draft, expected, strict=True)) if a != b), len(draft))
        if self.shape.exact and count < len(draft):
            plan.reservation.rollback(job.id)
        else:
            plan.reservation.commit_accepted(job.id, [*job.tokens, *draft], 1 + count)
        return draft[:count]

    def _draft(self, job: Job, rng: random.Random) -> Sequence[int]:
        """Some tokens that will follow, or as many that will not."""
        pending = len(job.tokens) - self.cache.length(job.id)
        most = min(self.runs[job.id].final - len(job.tokens) - 1, 8)
        if pending != 1 or most < 1 or job.logits_from is not None:
            return ()
        right, wrong = rng.randint(0, most), rng.randint(0, most)
        tokens = [_next_token(job, len(job.tokens) + i) for i in range(right)]
        return (tokens + [7] * wrong)[:most]

    def fail(self, plan: StepPlan) -> None:
        """The step failed: everything is as before."""
        for part in plan.slices:
            plan.reservation.rollback(part.job.id)

    def step(self) -> StepPlan | None:
        """Plan and commit."""
        plan = self.plan()
        if plan is not None:
            self.commit(plan)
        self.check_integrity()
        return plan

    def run(self, *, bound: int) -> int:
        """Steps until all jobs have ended; fails when that takes more than ``bound``."""
        start = self.step_number
        while self.live:
            assert self.step_number - start < bound, (
                f"{len(self.live)} jobs have not ended after {bound} steps"
            )
            assert self.step() is not None, (
                f"stuck: {[(r.job.state, len(r.job.tokens)) for r in self.live.values()]}"
            )
        return self.step_number - start

    def check_integrity(self) -> None:
        """Of scheduler and cache."""
        self.scheduler.check_integrity()
        self.cache.check_integrity()
        assert {job.id for job in self.scheduler.jobs} == set(self.live)

    def _keep(self, job: Job, final: int) -> Run:
        run = Run(job, final, added=self.step_number)
        self.runs[job.id] = self.live[job.id] = run
        return run

    def _check(self, plan: StepPlan) -> None:
        config, parts = self.config, plan.slices
        assert parts, "a plan without slices"
        ids = [part.job.id for part in parts]
        assert len(ids) == len(set(ids)), "twice in one step"
        assert len({part.job.lane for part in parts}) == 1, "two lanes in one step"
        for job, context_len, num_tokens, num_draft in parts:
            assert job.state is JobState.RUNNING
            assert num_tokens >= 1
            assert not num_draft or (num_tokens == 1 and num_draft <= len(job.draft) and not config.solo)
            assert context_len == self.cache.length(job.id) == plan.reservation.context_len(job.id)
            end = context_len + num_tokens
            assert end <= len(job.tokens)
            assert len(plan.reservation.blocks(job.id)) * self.shape.block_size >= end + num_draft
            assert job.logits_from is None or context_len <= job.logits_from, "logits are left out"
            if context_len < job.min_chunk_end:
                assert end >= min(job.min_chunk_end, len(job.tokens))
            else:
                assert num_tokens + num_draft <= config.chunk_tokens
                limited = config.solo or (job.logits_from is not None and end > job.logits_from)
                assert not limited or num_tokens <= (job.chunk_limit or num_tokens)
        exempt = sum(part.num_tokens for part in parts if part.context_len < part.job.min_chunk_end)
        assert plan.num_tokens - exempt <= config.max_step_tokens
        rows = [part.num_tokens * part.wants_all_logits + part.num_draft for part in parts]
        assert self.max_logits_rows is None or exempt or sum(rows) <= self.max_logits_rows
        running = self.scheduler.running
        assert sum(job.width for job in running) <= config.max_seqs or len(running) == 1
        if plan.preempted:
            assert not plan.admitted, "somebody was admitted although somebody had to give way"
            assert not plan.resumed or plan.resumed[0][0].state is not JobState.WAITING
        if config.max_cache_bytes is not None and len(running) > 1:
            size = self.shape.block_size
            held = {part.job.id: part.end + part.num_draft for part in parts}
            lengths = [held.get(job.id, self.cache.length(job.id)) for job in running]
            assert sum(-(-n // size) for n in lengths) * self.shape.block_bytes <= config.max_cache_bytes
        if config.solo:
            assert len(parts) == 1


def _next_token(job: Job, position: int) -> int:
    return job.id * 100_000 + 50_000 + position


def random_tiers(rng: random.Random) -> Tiers | None:
    """None, or small ones of which some fail."""
    if rng.random() < 0.4:
        return None
    share = rng.choice([0.0, 0.0, 0.3])
    memory = Memory(lambda: rng.random() < share)
    return Tiers(memory, host_bytes=rng.randint(0, 600), disk_bytes=rng.choice([0, 400]))


def random_config(rng: random.Random, *, policy: str, preemption: str, **fixed) -> SchedulerConfig:
    """Small budgets."""
    max_seqs = rng.randint(1, 6)
    chunk_tokens = rng.randint(1, 12)
    solo = rng.random() < 0.2
    return SchedulerConfig(
        max_seqs=max_seqs,
        max_step_tokens=max(max_seqs, chunk_tokens if solo else 0) + rng.randint(0, 12),
        chunk_tokens=chunk_tokens,
        policy=policy,
        preemption=preemption,
        aging_steps=rng.choice([None, 3, 50]),
        tenant_weights={"a": 2.0, "b": 0.5},
        wait_for_prefix=rng.random() < 0.5,
        solo=solo,
        **fixed,
    )
