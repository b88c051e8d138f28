"""What a step holds: decodes first, chunks, who comes back, newcomers; lanes, forks, budgets, solo mode."""

import pytest

from onnxgen.kvcache.base import PoolShape
from onnxgen.kvcache.tiers import Tiers
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.costs import PreemptionCosts
from onnxgen.scheduler.job import JobState
from scheduling_loop import Loop, Memory


def loop_of(*, num_blocks=64, block_size=4, **config) -> Loop:
    shape = PoolShape(num_blocks=num_blocks, block_size=block_size, block_bytes=100)
    return Loop(SchedulerConfig(**config), shape)


def sizes(plan) -> list[tuple[int, int, int]]:
    return [(part.job.id, part.context_len, part.num_tokens) for part in plan.slices]


def until_somebody_gives_way(loop) -> None:
    for _ in range(100):
        if loop.step().preempted:
            return
    pytest.fail("nobody had to give way")


def test_nothing_to_do_is_no_plan():
    assert loop_of().step() is None


def test_a_prompt_is_computed_and_then_one_token_per_step():
    loop = loop_of()
    run = loop.add(10, 13)
    assert sizes(loop.step()) == [(0, 0, 10)]
    assert sizes(loop.step()) == [(0, 10, 1)]
    assert sizes(loop.step()) == [(0, 11, 1)]
    assert loop.step() is None
    assert (run.admitted, run.token_steps) == (1, [1, 2, 3])


def test_a_long_prompt_takes_no_more_than_a_chunk_of_a_step_and_no_decode_waits_for_it():
    loop = loop_of(max_seqs=8, max_step_tokens=12, chunk_tokens=5)
    early = [loop.add(2, 30) for _ in range(3)]
    loop.step()
    late = loop.add(23, 25)
    for context_len, start in ((2, 0), (3, 5), (4, 10), (5, 15)):
        assert sizes(loop.step()) == [*((n, context_len, 1) for n in range(3)), (3, start, 5)]
    assert sizes(loop.step())[3] == (3, 20, 3)
    assert late.token_steps == [loop.step_number]
    assert all(run.token_steps == list(range(1, loop.step_number + 1)) for run in early)


def test_what_chunks_get_is_what_decodes_leave():
    loop = loop_of(max_seqs=4, max_step_tokens=4, chunk_tokens=9)
    for _ in range(3):
        loop.add(1, 40)
    assert loop.step().num_tokens == 3
    loop.add(9, 10)
    assert sizes(loop.step())[3] == (3, 0, 1)


def test_several_prompts_share_a_step_in_the_order_of_arrival():
    loop = loop_of(max_step_tokens=40, chunk_tokens=8)
    for _ in range(6):
        loop.add(20, 21)
    assert sizes(loop.step()) == [(n, 0, 8) for n in range(5)]
    assert sizes(loop.step()) == [(n, 8, 8) for n in range(5)]
    assert sizes(loop.step()) == [*((n, 16, 4) for n in range(5)), (5, 0, 8)]


def test_no_more_sequences_run_than_may_and_first_come_is_first_served():
    loop = loop_of(max_seqs=2)
    runs = [loop.add(3, 6) for _ in range(7)]
    loop.run(bound=30)
    admitted = [run.admitted for run in runs]
    assert admitted == sorted(admitted)
    assert [run.ended for run in runs] == sorted(run.ended for run in runs)


def test_a_late_request_gets_its_first_token_in_its_first_step():
    loop = loop_of()
    loop.add(4, 50)
    for _ in range(5):
        loop.step()
    late = loop.add(6, 9)
    loop.step()
    assert late.token_steps == [6]


def test_a_job_that_shares_what_a_neighbour_computes_waits_for_it():
    prefix = list(range(16))
    loop = loop_of(max_step_tokens=64, chunk_tokens=8)
    loop.add([*prefix, 100], 20)
    second = loop.add([*prefix, 200], 20)
    other = loop.add(5, 8)
    assert [size[0] for size in sizes(loop.step())] == [0, 2], "the one that shares waits, the other does not"
    loop.step()
    loop.step()
    plan = loop.last
    assert [(job.id, cached) for job, cached in plan.admitted] == [(1, 16)]
    assert second.admitted == 3
    assert other.admitted == 1


def test_without_waiting_both_compute_the_same():
    prefix = list(range(16))
    loop = loop_of(max_step_tokens=64, chunk_tokens=8, wait_for_prefix=False)
    loop.add([*prefix, 100], 20)
    loop.add([*prefix, 200], 20)
    assert [size[0] for size in sizes(loop.step())] == [0, 1]


def test_one_more_turn_computes_its_new_tokens_only():
    loop = loop_of()
    first = loop.add(9, 14)
    loop.run(bound=20)
    again = loop.add([*first.job.tokens, 7, 8, 9], 20)
    plan = loop.step()
    assert sizes(plan) == [(1, 13, 4)]
    assert plan.admitted == [(again.job, 13)]


def test_lanes_never_share_a_step_and_take_turns():
    loop = loop_of()
    for n in range(6):
        loop.add(3, 8, lane=n % 2)
    lanes = []
    while loop.live:
        lanes.append(loop.step().slices[0].job.lane)
    assert lanes == [0, 1] * 5


def test_a_first_chunk_reaches_its_mark_whatever_the_budget():
    loop = loop_of(max_seqs=4, max_step_tokens=6, chunk_tokens=4)
    loop.add(2, 20)
    loop.step()
    loop.add(17, 20, min_chunk_end=13)
    assert sizes(loop.step()) == [(0, 2, 1), (1, 0, 13)]
    assert sizes(loop.step()) == [(0, 3, 1), (1, 13, 4)]


def test_a_first_chunk_over_the_budget_waits_for_a_step_without_other_chunks():
    loop = loop_of(max_seqs=4, max_step_tokens=8, chunk_tokens=4)
    loop.add(8, 12)
    loop.add(17, 20, min_chunk_end=13)
    assert sizes(loop.step()) == [(0, 0, 4)]
    assert sizes(loop.step()) == [(0, 4, 4)]
    assert sizes(loop.step()) == [(0, 8, 1), (1, 0, 13)]


def test_samples_to_come_count_as_sequences():
    loop = loop_of(max_seqs=4)
    parent = loop.add(5, 12, width=3)
    loop.add(5, 12, width=2)
    small = loop.add(5, 12)
    loop.step()
    assert loop.scheduler.num_running == 1, "three and two are more than four, and nobody overtakes"
    children = [loop.fork(parent, 12), loop.fork(parent, 12)]
    assert [run.job.state for run in children] == [JobState.RUNNING] * 2
    assert sizes(loop.step()) == [(0, 5, 1), (3, 5, 1), (4, 5, 1)]
    loop.run(bound=40)
    assert small.ended


def test_a_fork_without_a_seat_comes_back_with_what_it_shares():
    loop = loop_of(max_seqs=1)
    parent = loop.add(8, 12)
    loop.step()
    child = loop.fork(parent, 12)
    assert child.job.state is JobState.PREEMPTED
    assert loop.scheduler.num_away == 1
    loop.run(bound=20)
    assert child.ended > parent.ended


def test_forks_share_blocks_until_they_write():
    loop = loop_of(num_blocks=8, block_size=4)
    parent = loop.add(10, 14, width=3)
    loop.step()
    loop.fork(parent, 14)
    loop.fork(parent, 14)
    assert loop.cache.usage().full.in_use == 3
    loop.step()
    assert loop.cache.usage().full.in_use == 5, "the first writer keeps the tail, the two others copy it"
    loop.run(bound=20)


def test_who_has_to_give_way_is_the_newest_and_nobody_is_admitted_meanwhile():
    loop = loop_of(num_blocks=16, block_size=4, preemption="recompute")
    old, new = loop.add(8, 40), loop.add(8, 40)
    until_somebody_gives_way(loop)
    assert [(job.id, mode) for job, mode in loop.last.preempted] == [(new.job.id, "recompute")]
    loop.add(2, 4)
    loop.run(bound=100)
    assert old.num_preempted == 0
    assert old.ended < new.ended


def test_those_who_gave_way_come_back_before_newcomers():
    loop = loop_of(num_blocks=16, block_size=4, preemption="recompute")
    loop.add(8, 40)
    loop.add(8, 40)
    until_somebody_gives_way(loop)
    late = loop.add(1, 4)
    while not loop.step().resumed:
        assert late.admitted is None, "one block would do for it, but who gave way comes first"
    assert [job.id for job, _ in loop.last.resumed] == [1]
    loop.run(bound=100)


def test_swapped_jobs_come_back_with_all_they_had():
    tiers = Tiers(Memory(), host_bytes=2_000)
    config = SchedulerConfig(preemption="swap")
    loop = Loop(config, PoolShape(num_blocks=16, block_size=4), tiers=tiers, prefix_reuse=False)
    loop.add(8, 40)
    loser = loop.add(8, 40)
    until_somebody_gives_way(loop)
    assert loop.last.preempted == [(loser.job, "swap")]
    assert (loser.job.state, loop.scheduler.num_away) == (JobState.SWAPPED, 1)
    held = len(loser.job.tokens) - 1
    while not loop.step().resumed:
        pass
    assert loop.last.resumed == [(loser.job, held)]
    assert loser.job.goal == held + 1, "it is spared until it gained a token"
    loop.run(bound=60)


def test_jobs_that_find_no_room_in_the_tiers_are_computed_again():
    tiers = Tiers(Memory(), host_bytes=50)
    loop = Loop(SchedulerConfig(preemption="swap"), PoolShape(num_blocks=16, block_size=4), tiers=tiers)
    loop.add(8, 40)
    loser = loop.add(8, 40)
    until_somebody_gives_way(loop)
    assert loop.last.preempted == [(loser.job, "recompute")]
    loop.run(bound=100)


def test_jobs_that_a_tier_lost_are_computed_again():
    tiers = Tiers(Memory(lambda: True), host_bytes=2_000)
    config = SchedulerConfig(preemption="swap")
    loop = Loop(config, PoolShape(num_blocks=16, block_size=4), tiers=tiers, prefix_reuse=False)
    loop.add(8, 40)
    loser = loop.add(8, 40)
    until_somebody_gives_way(loop)
    assert loser.job.state is JobState.SWAPPED
    while not loop.step().resumed:
        pass
    assert loop.last.resumed == [(loser.job, 0)]
    loop.run(bound=60)


@pytest.mark.parametrize(("seconds_per_token", "mode"), [(1.0, "swap"), (1e-9, "recompute")])
def test_the_cheaper_way_to_give_way_is_taken(seconds_per_token, mode):
    costs = PreemptionCosts()
    costs.observe_prefill(1, seconds_per_token)
    costs.observe_swap(1000, 1e-3)
    tiers = Tiers(Memory(), host_bytes=2_000)
    shape = PoolShape(num_blocks=16, block_size=4, block_bytes=40)
    loop = Loop(SchedulerConfig(preemption="auto"), shape, tiers=tiers, costs=costs)
    loop.add(8, 40)
    loop.add(8, 40)
    until_somebody_gives_way(loop)
    assert [how for _, how in loop.last.preempted] == [mode]


def test_a_restarted_job_computes_all_again_in_its_new_lane():
    loop = loop_of(chunk_tokens=4)
    run, other = loop.add(6, 12), loop.add(6, 12)
    for _ in range(3):
        loop.step()
    loop.scheduler.restart(run.job, lane="far", extra="far", min_chunk_end=7)
    seen = [sizes(loop.step()) for _ in range(2)]
    assert sorted(seen) == [[(0, 0, 7)], [(1, 7, 1)]]
    loop.run(bound=30)
    assert run.ended
    assert other.ended


def test_a_first_chunk_that_would_stop_short_of_its_mark_waits_for_blocks():
    loop = loop_of(num_blocks=16, block_size=4)
    above, run = loop.add(12, 44), loop.add(8, 50)
    loop.step()
    while loop.cache.length(run.job.id) < 28:
        loop.step()
    loop.scheduler.restart(run.job, lane="far", extra="far", min_chunk_end=29)
    while above.ended is None:
        assert [part.job for part in loop.step().slices] == [above.job], "7 blocks are free, 8 are needed"
    assert sizes(loop.step()) == [(1, 0, 29)]
    loop.run(bound=30)


def test_a_cache_budget_in_bytes_is_kept_by_those_who_grow():
    loop = loop_of(num_blocks=64, block_size=4, max_cache_bytes=600)
    runs = [loop.add(7, 20) for _ in range(4)]
    most = 0
    while loop.live:
        loop.step()
        most = max(most, loop.cache.usage().full.in_use)
    assert 4 < most <= 6
    assert all(run.ended for run in runs)


def test_without_preemption_nobody_is_admitted_who_might_have_to_give_way():
    loop = loop_of(num_blocks=10, block_size=4, preemption="off")
    runs = [loop.add(4, 8, max_tokens=20) for _ in range(5)]
    loop.step()
    assert loop.scheduler.num_running == 2
    loop.run(bound=40)
    assert sum(run.num_preempted for run in runs) == 0


def test_without_preemption_samples_are_reserved_whole():
    loop = loop_of(num_blocks=12, block_size=4, preemption="off")
    parent = loop.add(4, 16, width=2)
    single = loop.add(4, 16)
    after = loop.add(4, 16)
    loop.step()
    assert (single.admitted, after.admitted) == (1, None), "two and one of 4 blocks each"
    loop.fork(parent, 16)
    loop.run(bound=60)
    assert sum(run.num_preempted for run in loop.runs.values()) == 0


def test_a_smaller_configuration_preempts_the_lowest_claims():
    loop = loop_of(max_seqs=6)
    runs = [loop.add(3, 30) for _ in range(6)]
    loop.step()
    overage = loop.reconfigure(max_seqs=2)
    assert overage.seqs == 4
    assert overage.too_large == ()
    loop.step()
    assert [job.id for job, _ in loop.last.preempted] == [5, 4, 3, 2]
    assert [job.id for job in loop.scheduler.running] == [0, 1]
    loop.run(bound=200)
    assert all(run.ended for run in runs)


def test_a_configuration_that_became_too_small_for_a_job_says_so_and_lets_it_run_alone():
    loop = loop_of(block_size=4)
    large, small = loop.add(8, 40), loop.add(4, 8)
    loop.step()
    overage = loop.reconfigure(max_cache_bytes=300)
    assert [job.id for job in overage.too_large] == [0]
    assert overage.cache_bytes == 200, "three blocks and two of 100 bytes, of which 300 may be held"
    loop.run(bound=80)
    assert small.num_preempted == 1
    assert large.num_preempted == 0


def test_a_policy_can_be_changed_while_jobs_wait_and_run():
    loop = loop_of(max_seqs=1)
    first = loop.add(3, 9)
    loop.step()
    low, high = loop.add(3, 5, priority=5), loop.add(3, 5, priority=0)
    loop.reconfigure(max_seqs=1, policy="priority")
    loop.run(bound=40)
    assert first.ended < high.ended < low.ended


def test_solo_puts_one_sequence_into_a_step_and_cuts_prompts_at_fixed_places():
    loop = loop_of(max_seqs=4, chunk_tokens=4, solo=True)
    loop.add(10, 13)
    loop.add(6, 9)
    seen = {0: [], 1: []}
    while loop.live:
        ((job, context_len, num_tokens, _),) = loop.step().slices
        seen[job.id].append((context_len, num_tokens))
    assert seen[0] == [(0, 4), (4, 4), (8, 2), (10, 1), (11, 1)]
    assert seen[1] == [(0, 4), (4, 2), (6, 1), (7, 1)]


def test_solo_computes_the_same_pieces_after_preemption():
    loop = Loop(
        SchedulerConfig(max_seqs=4, chunk_tokens=4, solo=True, preemption="recompute"),
        PoolShape(num_blocks=14, block_size=4),
        prefix_reuse=False,
    )
    runs = [loop.add(10, 44), loop.add(9, 42)]
    seen = {0: set(), 1: set()}
    while loop.live:
        ((job, context_len, num_tokens, _),) = loop.step().slices
        seen[job.id].add((context_len, num_tokens))
    assert sum(run.num_preempted for run in runs) > 0
    assert seen[0] == {(0, 4), (4, 4), (8, 2), *((n, 1) for n in range(10, 43))}
    assert seen[1] == {(0, 4), (4, 4), (8, 1), *((n, 1) for n in range(9, 41))}


@pytest.mark.parametrize("keep", [True, False])
def test_a_job_can_be_removed_wherever_it_is(keep):
    loop = loop_of(num_blocks=16, block_size=4, max_seqs=2, preemption="recompute")
    runs = [loop.add(8, 40) for _ in range(3)]
    until_somebody_gives_way(loop)
    assert [run.job.state for run in runs] == [JobState.RUNNING, JobState.PREEMPTED, JobState.WAITING]
    for run in runs:
        loop.scheduler.remove(run.job, keep=keep)
        del loop.live[run.job.id]
        loop.check_integrity()
    assert loop.cache.usage().full.in_use == 0
    assert loop.step() is None


def test_a_step_that_failed_is_planned_again():
    loop = loop_of()
    loop.add(5, 8)
    first = sizes(loop.plan())
    loop.fail(loop.last)
    assert sizes(loop.plan()) == first
    assert loop.last.admitted == [], "it is admitted once"
    loop.commit(loop.last)
    loop.run(bound=5)


def test_views_count_jobs_where_they_are():
    loop = loop_of(max_seqs=1)
    loop.add(3, 9)
    loop.add(3, 9)
    loop.step()
    scheduler = loop.scheduler
    assert (scheduler.num_running, scheduler.num_waiting, scheduler.num_away) == (1, 1, 0)
    assert [job.id for job in scheduler.jobs] == [0, 1]


def test_tokens_that_all_give_logits_share_a_budget_of_their_own_and_others_pass_them_by():
    shape = PoolShape(num_blocks=64, block_size=4)
    loop = Loop(SchedulerConfig(max_step_tokens=60, chunk_tokens=30), shape, max_logits_rows=8)
    for _ in range(2):
        loop.add(13, 14, logits_from=0, chunk_limit=8)
    loop.add(10, 13)
    assert sizes(loop.step()) == [(0, 0, 8), (2, 0, 10)], "the second one finds no row left"
    assert sizes(loop.step()) == [(2, 10, 1), (0, 8, 5), (1, 0, 3)]
    assert sizes(loop.step()) == [(2, 11, 1), (1, 3, 8)]


def test_up_to_where_logits_are_wanted_a_job_is_computed_as_any_other():
    shape = PoolShape(num_blocks=64, block_size=4)
    loop = Loop(SchedulerConfig(max_step_tokens=60, chunk_tokens=30), shape, max_logits_rows=8)
    loop.add(50, 51, logits_from=40, chunk_limit=8)
    loop.add(9, 10, logits_from=0, chunk_limit=8)
    assert sizes(loop.step()) == [(0, 0, 30), (1, 0, 8)]
    assert sizes(loop.step()) == [(1, 8, 1), (0, 30, 10)]
    loop.add(20, 21, logits_from=0, chunk_limit=8)
    loop.add(20, 21, logits_from=12, chunk_limit=8)
    assert sizes(loop.step()) == [(0, 40, 8), (3, 0, 12)], (
        "the third finds no row left, the fourth needs none yet"
    )


def test_what_must_give_logits_is_computed_though_others_have_it():
    loop = loop_of(wait_for_prefix=True)
    prompt = list(range(100, 130))
    loop.add(prompt, 40)
    loop.step()
    late = loop.add([*prompt, 1], 33, logits_from=7)
    none = loop.add([*prompt, 2], 33, logits_from=0)
    assert [(job.id, n) for job, n in loop.step().admitted] == [(late.job.id, 7), (none.job.id, 0)]


def test_who_must_compute_it_all_does_not_wait_for_a_neighbour_that_computes_the_same():
    loop = loop_of(chunk_tokens=8, wait_for_prefix=True)
    prompt = list(range(100, 130))
    loop.add(prompt, 40)
    loop.step()
    loop.add([*prompt, 1], 33, logits_from=6)
    loop.add([*prompt, 2], 33, logits_from=26)
    assert [(job.id, n) for job, n in loop.step().admitted] == [(1, 6)], (
        "it has all that it may use; the other not"
    )
    loop.step()
    assert [(job.id, n) for job, n in loop.step().admitted] == []
    assert [(job.id, n) for job, n in loop.step().admitted] == [(2, 26)]
