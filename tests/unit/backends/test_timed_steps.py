import itertools

import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.timed_steps import Answers, time_answers
from onnxgen.errors import BackendError, CapabilityError


def _backend(**options):
    return FakeBackend(50, **{"max_context": 64, **options})


def _lengths(step):
    return step.query_lens.tolist()


@pytest.mark.parametrize("block_size", [None, 4])
def test_answers_are_those_of_the_model(block_size):
    prompt = (3, 1, 4, 1, 5)
    backend = _backend(block_size=block_size, continuations={prompt: [7, 8, 9, 10]})
    with Answers(backend, [list(prompt), [2, 2]], 5, chunk_tokens=3) as answers:
        answers.read_prompts()
        answers.write(3)
    decode_steps = backend.steps[-3:]
    assert [int(step.token_ids[0]) for step in decode_steps] == [7, 8, 9]
    assert [step.context_lens.tolist() for step in decode_steps] == [[5, 2], [6, 3], [7, 4]]


def test_prompts_run_in_chunks_and_only_their_ends_want_logits():
    backend = _backend()
    with Answers(backend, [[1] * 5, [2] * 3, [3] * 4], 2, chunk_tokens=4) as answers:
        answers.read_prompts()
    assert [_lengths(step) for step in backend.steps] == [[4], [1, 3], [4]]
    assert [step.logits_rows.tolist() for step in backend.steps] == [[], [0, 3], [3]]


def test_times_are_split_at_the_first_token():
    ticks = itertools.count()
    backend = _backend()
    execute = backend.execute

    def slow(step, cache):
        for _ in range(9 if step.num_tokens > 1 else 4):
            next(ticks)
        return execute(step, cache)

    backend.execute = slow
    times = time_answers(backend, [[1, 2, 3]], 4, chunk_tokens=16, clock=lambda: float(next(ticks)))
    assert times.prefill_s == 9 + 1
    assert times.decode_s == 3 * 4 + 1
    assert times.total_s == times.prefill_s + times.decode_s


def test_the_cache_is_closed_when_a_step_fails():
    backend = _backend(fail_steps={1})
    with pytest.raises(BackendError), Answers(backend, [[1, 2]], 4, chunk_tokens=16) as answers:
        answers.read_prompts()
        cache = answers._cache
        answers.write(3)
    assert cache.tokens is None


def test_an_answer_that_does_not_fit_is_refused():
    with pytest.raises(CapabilityError):
        time_answers(_backend(), [[1] * 60], 10, chunk_tokens=16)
