"""How much of a draft a step has room for."""

from __future__ import annotations

from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.config import SchedulerConfig
from scheduling_loop import Loop


def decoding(config, shape, *, jobs=1, prompt=5, final=60, max_logits_rows=None):
    """Jobs that have their prompts computed and one token left to compute."""
    loop = Loop(config, shape, max_logits_rows=max_logits_rows, prefix_reuse=False)
    runs = [loop.add(prompt, final, allow_cap=True) for _ in range(jobs)]
    while any(len(run.job.tokens) == prompt for run in runs):
        loop.step()
    return loop, runs


def drafts(loop):
    """Draft tokens of each job in the next step, which is then done."""
    plan = loop.plan()
    found = {part.job.id: part.num_draft for part in plan.slices}
    loop.commit(plan)
    loop.check_integrity()
    return found


POOL = PoolShape(num_blocks=40, block_size=4)


def test_a_draft_comes_behind_the_last_token():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=2, max_step_tokens=16), POOL)
    run.job.draft = (1, 2, 3)
    assert drafts(loop) == {0: 3}


def test_drafts_share_what_is_left_of_a_step_in_the_order_of_claims():
    loop, runs = decoding(SchedulerConfig(max_seqs=3, max_step_tokens=8, chunk_tokens=8), POOL, jobs=3)
    for run in runs:
        run.job.draft = (1, 2, 3, 4)
    assert drafts(loop) == {0: 4, 1: 1, 2: 0}


def test_prompts_go_before_drafts():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=3, max_step_tokens=8, chunk_tokens=8), POOL)
    loop.add(12, 14)
    run.job.draft = (1, 2, 3, 4)
    assert drafts(loop) == {0: 0, 1: 0}, "seven tokens of the prompt fill the step"
    run.job.draft = (1, 2, 3, 4)
    assert drafts(loop) == {0: 2, 1: 0}


def test_no_slice_is_longer_than_a_chunk():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=1, max_step_tokens=16, chunk_tokens=3), POOL)
    run.job.draft = (1, 2, 3, 4)
    assert drafts(loop) == {0: 2}


def test_rows_of_logits_are_limited():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=1, max_step_tokens=16), POOL, max_logits_rows=2)
    run.job.draft = (1, 2, 3, 4)
    assert drafts(loop) == {0: 2}


def test_nobody_gives_way_to_a_draft():
    config = SchedulerConfig(max_seqs=2, max_step_tokens=32, preemption="recompute")
    loop, runs = decoding(config, PoolShape(num_blocks=4, block_size=4), jobs=2, final=8)
    for run in runs:
        run.job.draft = tuple(range(10))
    found = drafts(loop)
    assert found == {0: 2, 1: 2}, "each has two more places in its second block"
    assert not loop.last.preempted


def test_a_budget_in_bytes_holds_for_drafts():
    shape = PoolShape(num_blocks=40, block_size=4, block_bytes=8)
    loop, (run,) = decoding(SchedulerConfig(max_seqs=1, max_step_tokens=32, max_cache_bytes=24), shape)
    run.job.draft = tuple(range(10))
    assert drafts(loop) == {0: 6}


def test_jobs_that_run_alone_have_no_drafts():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=2, chunk_tokens=8, solo=True), POOL)
    run.job.draft = (1, 2)
    assert drafts(loop) == {0: 0}


def test_who_has_more_to_compute_than_one_token_gets_no_draft():
    loop, (run,) = decoding(SchedulerConfig(max_seqs=2, max_step_tokens=16), POOL)
    run.job.tokens += [8, 9]
    run.job.draft = (1, 2)
    assert drafts(loop) == {0: 0}
