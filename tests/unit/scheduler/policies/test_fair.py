"""Tenants get tokens by weight within a bound that follows from the budgets; nobody saves up, nobody starves."""

import random

import pytest

from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from onnxgen.scheduler.policies.fair import FairPolicy
from scheduling_loop import Loop

POOL = PoolShape(num_blocks=400, block_size=4)


def loop_of(max_seqs, pool=POOL, **weights) -> Loop:
    config = SchedulerConfig(
        policy="fair", tenant_weights=weights, max_seqs=max_seqs, max_step_tokens=64, chunk_tokens=16
    )
    return Loop(config, pool, prefix_reuse=False)


def count_served(loop, plan, served, reached) -> None:
    """Tokens that brought a job further than it ever was."""
    for part in plan.slices:
        job = part.job
        gained = part.end - max(part.context_len, reached.get(job.id, 0))
        if gained > 0:
            served[job.tenant] = served.get(job.tenant, 0) + gained
            reached[job.id] = part.end


@pytest.mark.parametrize("num_blocks", [400, 12])
def test_tenants_with_jobs_waiting_get_tokens_by_weight(num_blocks):
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    longest_prompt, longest_answer, max_seqs = 12, 12, 3
    weights = {"a": 3.0, "b": 1.0, "c": 0.5}
    loop = loop_of(max_seqs, PoolShape(num_blocks=num_blocks, block_size=4), **weights)
    # Charged and not computed yet: prompts of all who run. Charged since another tenant last went first: one
    # prompt, and the answers of all who run.
    at_once = longest_prompt + max_seqs * (longest_prompt + longest_answer)
    bound = at_once / min(weights.values())
    served, reached = {}, {}
    while sum(served.values()) < 6_000:
        for tenant in weights:
            while sum(r.job.tenant == tenant and r.admitted is None for r in loop.live.values()) <= max_seqs:
                prompt = rng.randint(1, longest_prompt)
                loop.add(prompt, prompt + rng.randint(1, longest_answer), tenant=tenant)
        count_served(loop, loop.step(), served, reached)
        shares = [served.get(tenant, 0) / weight for tenant, weight in weights.items()]
        assert max(shares) - min(shares) <= bound
    assert bound < 0.15 * 6_000, "else the bound says nothing"


def test_who_was_away_saved_nothing_up():
    loop = loop_of(1)
    for _ in range(60):
        loop.add(4, 8, tenant="busy")
    for _ in range(120):
        loop.step()
    for _ in range(20):
        loop.add(4, 8, tenant="late")
    before = {run.job.id for run in loop.runs.values() if run.admitted}
    for _ in range(12 * 4):
        loop.step()
    tenants = [run.job.tenant for run in loop.runs.values() if run.admitted and run.job.id not in before]
    assert abs(tenants.count("busy") - tenants.count("late")) <= 1


def test_a_flood_of_one_tenant_does_not_hold_up_another():
    loop = loop_of(1)
    for _ in range(100):
        loop.add(4, 8, tenant="flood")
    for _ in range(9):
        loop.step()
    late = loop.add(4, 8, tenant="late")
    for _ in range(8):
        loop.step()
    assert late.ended


def test_coming_back_does_not_wipe_out_what_was_used_while_others_waited():
    loop = loop_of(1)
    loop.add(4, 44, tenant="heavy")
    loop.step()
    first = loop.add(4, 8, tenant="light")
    for _ in range(20):
        loop.step()
    again, second = loop.add(4, 8, tenant="heavy"), loop.add(4, 8, tenant="light")
    loop.run(bound=60)
    assert first.admitted < second.admitted < again.admitted


def test_jobs_of_one_tenant_go_by_arrival():
    loop = loop_of(2)
    runs = [loop.add(3, 5 + n % 3, tenant="a") for n in range(8)]
    loop.run(bound=60)
    assert [run.admitted for run in runs] == sorted(run.admitted for run in runs)


def test_tokens_that_are_computed_again_are_not_paid_twice():
    loop = Loop(
        SchedulerConfig(policy="fair", preemption="recompute"),
        PoolShape(num_blocks=16, block_size=4),
        prefix_reuse=False,
    )
    charged = {"a": 0, "b": 0}
    policy = loop.scheduler._policy
    charge = policy.charge

    def noting(job, num_tokens):
        charged[job.tenant] += num_tokens
        charge(job, num_tokens)

    policy.charge = noting
    runs = [loop.add(8, 40, tenant="a"), loop.add(8, 40, tenant="b")]
    loop.run(bound=200)
    assert sum(run.num_preempted for run in runs) > 0
    assert charged == {"a": 39, "b": 39}, "all but the last token, which is never computed"


def test_accounts_of_tenants_who_are_gone_do_not_pile_up():
    policy = FairPolicy(SchedulerConfig())
    for n in range(300):
        job = Job(n, [1], max_tokens=2, tenant=f"tenant {n}")
        job.arrival = n
        policy.push(job)
        assert [*policy.order()] == [job]
        policy.discard(job)
        policy.charge(job, 10)
    assert len(policy._used) < 5
