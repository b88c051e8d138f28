"""Any order of adding, cancelling, planning, failing, forking and reconfiguring keeps every count right."""

import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onnxgen.errors import AdmissionError
from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.job import JobState
from onnxgen.scheduler.policies import policy_names
from scheduling_loop import Loop, random_config, random_tiers

KINDS = st.tuples(st.sampled_from(policy_names()), st.sampled_from(["auto", "swap", "recompute", "off"]))


class SchedulerMachine(RuleBasedStateMachine):
    """Drives `Loop`, which checks each plan; both structures are checked after each operation."""

    @initialize(
        kind=KINDS,
        num_blocks=st.integers(1, 12),
        block_size=st.integers(1, 6),
        paged=st.booleans(),
        can_copy=st.booleans(),
        seed=st.integers(0, 2**20),
    )
    def start(self, kind, num_blocks, block_size, paged, can_copy, seed):
        self.rng = random.Random(seed)
        size = block_size if paged else 5 * block_size
        self.shape = PoolShape(
            num_blocks=num_blocks, block_size=size, block_bytes=8, paged=paged, can_copy=can_copy
        )
        drafts = random.Random(seed) if self.rng.random() < 0.5 else None
        self.loop = Loop(self.config(kind), self.shape, tiers=random_tiers(self.rng), drafts=drafts)

    def config(self, kind):
        policy, preemption = kind
        limits = {}
        if self.rng.random() < 0.3:
            limits["max_cache_bytes"] = 8 * self.rng.randint(1, self.shape.num_blocks)
        if self.rng.random() < 0.3:
            limits["max_waiting"] = self.rng.randint(0, 3)
        return random_config(self.rng, policy=policy, preemption=preemption, **limits)

    @rule(
        prompt=st.integers(1, 30),
        answer=st.integers(1, 20),
        shared=st.booleans(),
        width=st.sampled_from([1, 1, 1, 2]),
        lane=st.sampled_from([None, None, None, "long"]),
        tenant=st.sampled_from("abc"),
        priority=st.integers(-1, 1),
        allow_cap=st.booleans(),
    )
    def add(self, prompt, answer, shared, **fields):
        tokens = list(range(prompt)) if shared else prompt
        number = len(self.loop.runs)
        try:
            run = self.loop.add(tokens, prompt + answer, **fields)
        except AdmissionError:
            assert number == len(self.loop.runs)
        else:
            assert len(run.job.tokens) < run.job.max_tokens <= prompt + answer

    @precondition(lambda self: self.loop.live)
    @rule(data=st.data())
    def cancel(self, data):
        self.loop.cancel(data.draw(st.sampled_from(list(self.loop.live.values()))))

    @precondition(lambda self: self.loop.live)
    @rule(data=st.data())
    def fork(self, data):
        parent = data.draw(st.sampled_from(list(self.loop.live.values())))
        if parent.job.state is not JobState.WAITING:
            self.loop.fork(parent, parent.final)

    @precondition(lambda self: self.loop.live)
    @rule(data=st.data(), lane=st.sampled_from([None, "long"]), extra=st.integers(0, 2))
    def restart(self, data, lane, extra):
        run = data.draw(st.sampled_from(list(self.loop.live.values())))
        mark = data.draw(st.integers(0, len(run.job.tokens)))
        self.loop.scheduler.restart(run.job, lane=lane, extra=extra, min_chunk_end=mark)

    @rule(kind=KINDS)
    def reconfigure(self, kind):
        config = self.config(kind)
        self.loop.config = config
        overage = self.loop.scheduler.reconfigure(config)
        assert overage.seqs == max(0, sum(j.width for j in self.loop.scheduler.running) - config.max_seqs)

    @rule(times=st.integers(1, 5))
    def steps(self, times):
        for _ in range(times):
            assert self.loop.step() is not None or not self.loop.live

    @rule()
    def failing_step(self):
        plan = self.loop.plan()
        if plan is not None:
            self.loop.fail(plan)

    @rule(data=st.data())
    def step_that_fails_in_part(self, data):
        plan = self.loop.plan()
        if plan is None:
            return
        bad = data.draw(st.sampled_from(plan.slices))
        plan.reservation.rollback(bad.job.id)
        plan.slices.remove(bad)
        self.loop.commit(plan)
        self.loop.cancel(self.loop.live[bad.job.id])

    @invariant()
    def all_counts_are_right(self):
        if hasattr(self, "loop"):
            self.loop.check_integrity()

    def teardown(self):
        if hasattr(self, "loop"):
            self.loop.run(bound=20_000)
            assert self.loop.cache.usage().full.in_use == 0


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
