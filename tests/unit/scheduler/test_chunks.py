"""How a sequence is cut."""

from hypothesis import given
from hypothesis import strategies as st

from onnxgen.scheduler.chunks import next_chunk
from onnxgen.scheduler.config import SchedulerConfig
from onnxgen.scheduler.job import Job

SIZES = st.integers(1, 40)


def job_of(num_tokens, *, prompt=None, mark=0, most=None, logits_from=None) -> Job:
    job = Job(
        0,
        [1] * num_tokens,
        max_tokens=100,
        min_chunk_end=mark,
        chunk_limit=most,
        logits_from=logits_from,
    )
    job.prompt_tokens = num_tokens if prompt is None else prompt
    return job


@given(SIZES, SIZES, SIZES, st.integers(0, 40), st.booleans(), st.data())
def test_chunks_stay_within_their_limits(num_tokens, chunk_tokens, left, mark, is_first, data):
    context_len = data.draw(st.integers(0, num_tokens - 1))
    config = SchedulerConfig(max_seqs=1, chunk_tokens=chunk_tokens)
    asked, least = next_chunk(
        job_of(num_tokens, mark=mark), context_len, config=config, left=left, is_first=is_first
    )
    assert 0 <= asked <= num_tokens - context_len
    assert least >= 1
    if not asked:
        assert not is_first, "the first one always gets something"
        assert mark > context_len + min(chunk_tokens, left)
    elif context_len < mark:
        assert context_len + least >= min(mark, num_tokens), "it would stop short of its mark"
        assert context_len + asked <= max(mark, context_len + min(chunk_tokens, left))
    else:
        assert asked <= min(chunk_tokens, left)


@given(SIZES, SIZES, SIZES, st.data())
def test_solo_cuts_do_not_depend_on_where_one_starts_or_on_how_much_is_known(
    prompt, answer, chunk_tokens, data
):
    config = SchedulerConfig(max_seqs=1, chunk_tokens=chunk_tokens, solo=True)
    cuts = {0}
    known = prompt
    while max(cuts) < prompt + answer:
        known = max(known, max(cuts) + 1)
        chunk = next_chunk(job_of(known, prompt=prompt), max(cuts), config=config, left=512, is_first=True)
        assert chunk.num_tokens == chunk.least
        cuts.add(max(cuts) + chunk.num_tokens)
    assert cuts == {*range(0, prompt, chunk_tokens), *range(prompt, prompt + answer + 1)}
    at = data.draw(st.sampled_from(sorted(cuts - {max(cuts)})))
    chunk = next_chunk(job_of(prompt + answer, prompt=prompt), at, config=config, left=512, is_first=True)
    assert at + chunk.num_tokens == min(cut for cut in cuts if cut > at), "the same when it is computed again"


@given(SIZES, SIZES, SIZES, SIZES, st.booleans(), st.data())
def test_where_logits_are_wanted_a_jobs_own_limit_is_as_good_as_one_of_the_configuration(
    num_tokens, most, chunk_tokens, left, solo, data
):
    at = data.draw(st.integers(0, num_tokens - 1))
    wanted = data.draw(st.none() | st.integers(0, num_tokens))
    config = SchedulerConfig(max_seqs=1, chunk_tokens=chunk_tokens, solo=solo)
    limited = solo or (wanted is not None and at >= wanted)
    same = SchedulerConfig(
        max_seqs=1, chunk_tokens=min(most, chunk_tokens) if limited else chunk_tokens, solo=solo
    )
    job = job_of(num_tokens, most=most, logits_from=wanted)
    found = next_chunk(job, at, config=config, left=left, is_first=True)
    assert found == next_chunk(job_of(num_tokens), at, config=same, left=left, is_first=True)
