import pytest

from hash_backend import HashBackend
from onnxgen.engine.batch import Batch
from onnxgen.engine.generation import Generation, Request
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import BackendError, ContextLengthError, OptionError

GREEDY = SamplingOptions()


def open_batch(backend, rows=1, max_tokens=64):
    return Batch(backend, num_rows=rows, max_tokens=max_tokens, chunk_tokens=16)


def run(generation, count):
    answers = [[] for _ in range(count)]
    reasons = [None] * count
    while generation.active:
        for event in generation.step():
            if not event.is_eos:
                answers[event.index].append(event.token_id)
            reasons[event.index] = event.finish_reason
    return answers, reasons


def test_answers_in_a_batch_equal_answers_alone():
    backend = HashBackend()
    prompts = [[1, 2, 3], [9], list(range(20))]
    requests = [Request(p, GREEDY, max_new_tokens=n) for p, n in zip(prompts, (5, 9, 2), strict=True)]
    answers, reasons = run(Generation(open_batch(backend, 3), requests, eos_ids=()), 3)
    assert answers == [backend.greedy(p, n) for p, n in zip(prompts, (5, 9, 2), strict=True)]
    assert reasons == ["length"] * 3


def test_sampled_answers_do_not_depend_on_neighbours_or_order():
    backend = HashBackend()
    penalized = SamplingOptions(repetition_penalty=2.0)
    drawn = SamplingOptions(temperature=1.5, seed=99)
    a, b = Request([1, 2], penalized, max_new_tokens=5), Request([1, 2], drawn, max_new_tokens=4)
    alone = [run(Generation(open_batch(backend), [r], eos_ids=()), 1)[0][0] for r in (a, b)]
    ab, _ = run(Generation(open_batch(backend, 2), [a, b], eos_ids=()), 2)
    ba, _ = run(Generation(open_batch(backend, 2), [b, a], eos_ids=()), 2)
    assert ab == alone
    assert ba == alone[::-1]


def test_finished_rows_leave_the_step():
    backend = HashBackend()
    requests = [Request([1], GREEDY, max_new_tokens=1), Request([2], GREEDY, max_new_tokens=3)]
    run(Generation(open_batch(backend, 2), requests, eos_ids=()), 2)
    assert backend.steps == [[1, 1], [1], [1]]


@pytest.mark.parametrize(("at", "expected"), [(2, []), (4, None)])
def test_an_eos_token_ends_the_answer_and_is_not_part_of_it(at, expected):
    backend = HashBackend(favourite=lambda length: 13 if length == at else 7)
    answers, reasons = run(
        Generation(open_batch(backend), [Request([1, 2], GREEDY, max_new_tokens=3)], eos_ids=(13, 14)), 1
    )
    assert answers == [[7] * (at - 2)]
    assert reasons == ["stop"]
    if expected is not None:
        assert answers[0] == expected


def test_ignoring_eos_makes_it_a_token_like_others():
    backend = HashBackend(favourite=lambda length: 13)
    request = Request([1], GREEDY, max_new_tokens=3, ignore_eos=True)
    assert run(Generation(open_batch(backend), [request], eos_ids=(13,)), 1) == ([[13, 13, 13]], ["length"])


def test_without_a_limit_an_answer_ends_with_the_context():
    backend = HashBackend()
    answers, reasons = run(
        Generation(open_batch(backend, max_tokens=20), [Request([1] * 5, GREEDY)], eos_ids=()), 1
    )
    assert len(answers[0]) == 15
    assert reasons == ["length"]


def test_the_minimum_length_holds_eos_back():
    backend = HashBackend(favourite=lambda length: 13)
    request = Request([1, 2], SamplingOptions(min_length=5), max_new_tokens=9)
    answers, reasons = run(Generation(open_batch(backend), [request], eos_ids=(13,)), 1)
    assert len(answers[0]) == 3
    assert 13 not in answers[0]
    assert reasons == ["stop"]


def test_a_second_request_on_the_same_row_reuses_the_common_prefix():
    backend = HashBackend()
    batch = open_batch(backend)
    run(Generation(batch, [Request([1, 2, 3, 4], GREEDY, max_new_tokens=2)], eos_ids=()), 1)
    backend.steps.clear()
    second = Generation(batch, [Request([1, 2, 3, 9, 9], GREEDY, max_new_tokens=1)], eos_ids=())
    assert second.reused_tokens == (3,)
    answers, _ = run(second, 1)
    assert answers == [backend.greedy([1, 2, 3, 9, 9], 1)]
    assert backend.steps == [[2]]


def test_a_failed_step_can_be_tried_again():
    backend = HashBackend()
    generation = Generation(open_batch(backend), [Request([1, 2], GREEDY, max_new_tokens=3)], eos_ids=())
    first = generation.step()[0].token_id
    backend.fail_at = {1}
    with pytest.raises(BackendError):
        generation.step()
    rest, _ = run(generation, 1)
    assert [first, *rest[0]] == backend.greedy([1, 2], 3)


def test_a_finished_answer_stays_finished():
    backend = HashBackend()
    generation = Generation(open_batch(backend, 2), [Request([1], GREEDY), Request([2], GREEDY)], eos_ids=())
    generation.finish(0)
    generation.finish(0)
    assert [e.index for e in generation.step()] == [1]


def test_prompts_that_leave_no_room_are_refused_with_both_numbers():
    with pytest.raises(ContextLengthError, match=r"prompt 1 has 20 tokens.*fewer than 20"):
        Generation(
            open_batch(HashBackend(), 2, max_tokens=20),
            [Request([1], GREEDY), Request([1] * 20, GREEDY)],
            eos_ids=(),
        )


def test_an_empty_prompt_is_refused():
    with pytest.raises(OptionError, match="prompt 0 is empty"):
        Generation(open_batch(HashBackend()), [Request([], GREEDY)], eos_ids=())
