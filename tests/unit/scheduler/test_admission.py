"""Jobs are queued, capped when they allow it, or refused with both numbers."""

import pytest

from onnxgen.errors import AdmissionError, NeverFitsError, QueueFullError
from onnxgen.kvcache.base import PoolShape
from onnxgen.scheduler.admission import Admission, Outcome
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job
from scheduling_loop import Loop


def loop_of(**config) -> Loop:
    return Loop(SchedulerConfig(**config), PoolShape(num_blocks=10, block_size=4, block_bytes=100))


def job_of(prompt, max_tokens, **fields) -> Job:
    return Job(0, [1] * prompt, max_tokens=max_tokens, **fields)


def test_what_fits_is_queued():
    assert loop_of().scheduler.add(job_of(5, 40)) == Admission(Outcome.QUEUED, 40)


def test_what_never_fits_is_refused_with_both_numbers():
    with pytest.raises(
        NeverFitsError,
        match=r"asks for 41 tokens \(5 of prompt, 36 of answer\), the cache holds 40 .*; ask for fewer",
    ):
        loop_of().scheduler.add(job_of(5, 41))


def test_a_job_that_allows_it_is_capped():
    job = job_of(5, 100, allow_cap=True)
    assert loop_of().scheduler.add(job) == Admission(Outcome.CAPPED, 40)
    assert job.max_tokens == 40


def test_a_prompt_without_room_for_one_token_of_answer_is_not_capped():
    with pytest.raises(NeverFitsError, match=r"41 tokens \(40 of prompt, 1 of answer.*; shorten the prompt"):
        loop_of().scheduler.add(job_of(40, 41, allow_cap=True))


def test_a_budget_in_bytes_caps_too_and_the_message_names_it():
    assert loop_of(max_cache_bytes=350).scheduler.add(job_of(5, 40, allow_cap=True)).max_tokens == 12
    with pytest.raises(NeverFitsError, match=r"holds 12 in 350 bytes \(max_cache_bytes\)"):
        loop_of(max_cache_bytes=350).scheduler.add(job_of(5, 13))


def test_more_samples_than_sequences_never_fit():
    with pytest.raises(NeverFitsError, match="asks for 3 sequences at once, the scheduler runs at most 2"):
        loop_of(max_seqs=2).scheduler.add(job_of(5, 9, width=3))


def test_without_preemption_samples_need_room_for_all_of_them():
    assert loop_of(preemption="off").scheduler.add(job_of(5, 20, width=2)).outcome is Outcome.QUEUED
    with pytest.raises(NeverFitsError, match=r"holds 20 for each of 2 samples"):
        loop_of(preemption="off").scheduler.add(job_of(5, 21, width=2))


def test_a_full_queue_refuses_with_both_numbers_and_takes_again_later():
    loop = loop_of(max_seqs=2, max_waiting=1)
    for _ in range(3):
        loop.add(3, 6)
    with pytest.raises(
        QueueFullError, match="3 requests wait for 2 free of 2 sequences, and at most 1 more may wait"
    ):
        loop.add(3, 6)
    loop.step()
    with pytest.raises(QueueFullError, match="1 requests wait for 0 free"):
        loop.add(3, 6)
    loop.run(bound=20)
    loop.add(3, 6)


def test_refused_jobs_leave_no_trace():
    loop = loop_of(max_waiting=0, max_seqs=1)
    loop.add(3, 6)
    for job in (Job(7, [1], max_tokens=4), Job(8, [1], max_tokens=400)):
        with pytest.raises(AdmissionError):
            loop.scheduler.add(job)
    assert [job.id for job in loop.scheduler.jobs] == [0]
    loop.run(bound=5)


def test_both_kinds_can_be_told_apart():
    assert not issubclass(NeverFitsError, QueueFullError)
    assert issubclass(NeverFitsError, ValueError)
    assert not issubclass(QueueFullError, ValueError)
