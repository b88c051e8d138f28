"""Whatever arrives, whatever the policy, and however small the pool: every job comes to its end."""

import random

import pytest

from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.tiers import Tiers
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.policies import policy_names
from scheduling_loop import Loop, Memory, random_config, random_tiers

POLICIES = policy_names()
PREEMPTION = ("auto", "swap", "recompute", "off")
MAX_LOGITS_ROWS = 5


def fresh_random() -> random.Random:
    seed = random.SystemRandom().randrange(10**9)
    print(f"seed {seed}")
    return random.Random(seed)


def pages(rng: random.Random) -> PoolShape:
    return PoolShape(num_blocks=rng.randint(3, 24), block_size=rng.randint(1, 6), block_bytes=10)


def slots(rng: random.Random) -> PoolShape:
    return PoolShape(
        num_blocks=rng.randint(1, 4),
        block_size=rng.randint(8, 50),
        block_bytes=10,
        paged=False,
        can_copy=rng.random() < 0.5,
    )


@pytest.mark.parametrize("preemption", PREEMPTION)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("make_shape", [pages, slots])
def test_random_workloads_end(policy, preemption, make_shape):
    for _ in range(12):
        rng = fresh_random()
        config = random_config(rng, policy=policy, preemption=preemption)
        loop = Loop(
            config,
            make_shape(rng),
            tiers=random_tiers(rng),
            prefix_reuse=rng.random() < 0.8,
            max_logits_rows=rng.choice([None, MAX_LOGITS_ROWS]),
        )
        workload = random_workload(rng, loop.cache.capacity_tokens)
        total = sum(final for _, final, _ in workload)
        while workload or loop.live:
            if workload and (rng.random() < 0.3 or not loop.live):
                prompt, final, fields = workload.pop()
                loop.add(prompt, final, **fields)
            if loop.live and rng.random() < 0.02:
                loop.cancel(rng.choice(list(loop.live.values())))
            plan = loop.step()
            assert plan is not None or not loop.live, "jobs are left and none can go on"
            assert loop.step_number < 40 * total + 200, "this takes too long to be progress"
        assert loop.cache.usage().full.in_use == 0


def random_workload(rng: random.Random, capacity: int):
    jobs = []
    for _ in range(rng.randint(1, 12)):
        final = rng.randint(2, capacity)
        prompt = prompt_length = rng.randint(1, final - 1)
        if rng.random() < 0.3:
            prompt = [*range(prompt)]  # like others of this kind
        fields = {
            "max_tokens": rng.randint(final, capacity),
            "priority": rng.randint(-2, 2),
            "tenant": rng.choice("abc"),
        }
        if rng.random() < 0.2:
            fields["lane"] = rng.choice([None, "long"])
        if rng.random() < 0.1:
            fields["min_chunk_end"] = rng.randint(1, final)
        if rng.random() < 0.3:
            fields |= {"logits_from": rng.randrange(prompt_length), "chunk_limit": MAX_LOGITS_ROWS}
        jobs.append((prompt, final, fields))
    return jobs


@pytest.mark.parametrize("preemption", ["auto", "swap", "recompute"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_four_sequences_that_grow_end_in_a_pool_for_one_and_a_half(policy, preemption, block_size):
    shape = PoolShape(num_blocks=120 // block_size, block_size=block_size)
    tiers = Tiers(Memory(), host_bytes=900)
    loop = Loop(SchedulerConfig(policy=policy, preemption=preemption), shape, tiers=tiers)
    runs = [loop.add(6, 80, tenant=tenant, priority=-n) for n, tenant in enumerate("abab")]
    loop.run(bound=4 * 80 * 2)
    assert sum(run.num_preempted for run in runs) > 0
    assert (loop.cache.usage().swapped_out > 0) == (preemption != "recompute")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_top_claim_never_gives_way_and_every_return_gains_a_token(policy):
    for _ in range(20):
        rng = fresh_random()
        shape = PoolShape(num_blocks=rng.randint(6, 12), block_size=rng.randint(2, 5))
        loop = Loop(SchedulerConfig(policy=policy, preemption="recompute", chunk_tokens=4), shape)
        capacity = loop.cache.capacity_tokens
        for n in range(5):
            loop.add(rng.randint(1, capacity // 3), capacity, tenant="ab"[n % 2], priority=n % 3)
        lengths = {}
        while loop.live:
            top = loop.scheduler.running[:1]
            plan = loop.step()
            for job, _ in plan.preempted:
                assert [job] != [*top], "the top claim gave way"
                assert len(job.tokens) > lengths.get(job.id, 0), "it came back and gained nothing"
            lengths |= {job.id: len(job.tokens) for job, _ in plan.resumed}


def test_a_preempted_job_never_computes_its_answer_in_vain_forever():
    loop = Loop(
        SchedulerConfig(preemption="recompute"), PoolShape(num_blocks=30, block_size=2), prefix_reuse=False
    )
    runs = [loop.add(10, 60) for _ in range(6)]
    computed = 0
    while loop.live:
        computed += loop.step().num_tokens
    assert computed < 3 * sum(run.final for run in runs)
