import gc
import itertools
import threading
import tracemalloc

import numpy as np
import pytest

from onnxgen.errors import (
    BackendError,
    CapabilityError,
    ContextLengthError,
    OptionError,
    StateError,
    TokenIdError,
)
from onnxgen.facade.generator import Generator
from onnxgen.facade.params import GeneratorParams
from tiny_model_folder import CONTEXT, fake_backend, open_generator, open_model, write_model_folder
from tiny_tokenizer import EOS, PAD, VOCAB_SIZE


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


def run(generator, limit=1000):
    steps = []
    while not generator.is_done() and len(steps) < limit:
        generator.generate_next_token()
        steps.append(generator.get_next_tokens().tolist())
    return steps


def greedy(backend, prompt, count):
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(np.argmax(backend.logits_after(tokens))))
    return tokens[len(prompt) :]


def test_a_published_loop_runs(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, max_length=12)
    g.append_tokens([5, 6, 7])
    steps = run(g)
    assert [step[0] for step in steps] == greedy(backend, [5, 6, 7], 9)
    assert g.get_sequence(0).tolist() == [5, 6, 7, *greedy(backend, [5, 6, 7], 9)]
    assert g.get_sequence(0).dtype == np.int32
    assert g.token_count() == 12
    assert g.is_done()


def test_eos_is_seen_as_a_token_but_is_not_in_the_only_sequence(folder):
    g = open_generator(folder, fake_backend(continuations={(5, 6): (7, 8)}, eos_token_id=EOS))
    g.append_tokens([5, 6])
    assert run(g) == [[7], [8], [EOS]]
    assert g.get_sequence(0).tolist() == [5, 6, 7, 8]
    with pytest.raises(StateError, match="all rows are finished"):
        g.generate_next_token()


def test_a_conversation_goes_on_after_eos(folder):
    backend = fake_backend(continuations={(5,): (7,), (5, 7, 9): (4,)}, eos_token_id=EOS)
    g = open_generator(folder, backend)
    g.append_tokens([5])
    run(g)
    g.append_tokens([9])
    assert not g.is_done()
    assert run(g) == [[4], [EOS]]
    assert g.get_sequence(0).tolist() == [5, 7, 9, 4]
    assert backend.num_tokens == 4  # the last token is never run: nothing asks for what follows it


def test_rows_that_finish_early_have_eos_and_then_padding(folder):
    backend = fake_backend(continuations={(5, 6): (7,), (8, 9): (10, 11, 12)}, eos_token_id=EOS)
    g = open_generator(folder, backend, batch_size=2)
    g.append_tokens([[5, 6], [8, 9]])
    assert run(g) == [[7, 10], [EOS, 11], [PAD, 12], [PAD, EOS]]
    assert g.get_sequence(0).tolist() == [5, 6, 7, EOS, PAD]
    assert g.get_sequence(1).tolist() == [8, 9, 10, 11, 12]
    assert [step.num_seqs for step in backend.steps] == [2, 2, 1, 1]


def test_padding_of_a_shorter_row_does_not_change_its_answer(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, batch_size=2, max_length=10)
    g.append_tokens(np.array([[5, 6, PAD, PAD, PAD], [1, 2, 3, 4, 5]]))
    run(g)
    assert g.get_sequence(0).tolist() == [5, 6, PAD, PAD, PAD, *greedy(backend, [5, 6], 5)]
    assert g.get_sequence(1).tolist() == [1, 2, 3, 4, 5, *greedy(backend, [1, 2, 3, 4, 5], 5)]


def test_padding_of_the_only_row_is_a_token_like_others(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, max_length=6)
    g.append_tokens([[5, 6, PAD]])
    run(g)
    assert g.get_sequence(0).tolist()[3:] == greedy(backend, [5, 6, PAD], 3)


def test_several_rows_take_tokens_once(folder):
    g = open_generator(folder, batch_size=2)
    g.append_tokens([[1, 2], [3, 4]])
    with pytest.raises(StateError, match=r"rewind_to\(0\)"):
        g.append_tokens([[1], [2]])
    g.rewind_to(0)
    g.append_tokens([5, 6, 7, 8])
    assert g.get_sequence(1).tolist() == [7, 8]


@pytest.mark.parametrize("sampling", [{}, {"do_sample": True, "random_seed": 7, "temperature": 2.0}])
@pytest.mark.parametrize("length", [1, 3, 5, 9])
@pytest.mark.parametrize("rewind", [True, False])
def test_continuing_after_a_rewind_equals_a_fresh_run(folder, sampling, length, rewind):
    g = open_generator(folder, fake_backend(rewind=rewind), max_length=12, **sampling)
    g.append_tokens([5, 6, 7])
    run(g)
    whole = g.get_sequence(0).tolist()
    g.rewind_to(length)
    assert g.token_count() == length
    assert not g.is_done()
    if length >= 3:
        run(g)
    else:
        g.append_tokens(whole[length:3])
        run(g)
    assert g.get_sequence(0).tolist() == whole


def test_rows_are_rewound_together(folder):
    backend = fake_backend(continuations={(5, 6): (7,), (8, 9): (10, 11, 12)}, eos_token_id=EOS)
    g = open_generator(folder, backend, batch_size=2)
    g.append_tokens([[5, 6, PAD], [8, 9, PAD]])
    run(g)
    before = [g.get_sequence(i).tolist() for i in range(2)]
    for length in (6, 5, 4, 3):
        g.rewind_to(length)
        run(g)
        assert [g.get_sequence(i).tolist() for i in range(2)] == before


def test_rewinding_out_of_range_is_refused(folder):
    g = open_generator(folder)
    g.append_tokens([1, 2])
    for length in (-1, 3):
        with pytest.raises(OptionError, match=f"cannot rewind to {length} tokens, there are 2"):
            g.rewind_to(length)


def test_the_logits_can_be_read_and_replaced(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, batch_size=2)
    g.append_tokens([[1, 2], [3, 4]])
    expected = [[backend.logits_after([1, 2])], [backend.logits_after([3, 4])]]
    np.testing.assert_array_equal(g.get_logits(), expected)
    np.testing.assert_array_equal(g.get_output("logits")[:, 1:], expected)
    forced = np.zeros((2, 1, VOCAB_SIZE), np.float32)
    forced[0, 0, 50] = forced[1, 0, 60] = 1
    g.set_logits(forced)
    g.generate_next_token()
    assert g.get_next_tokens().tolist() == [50, 60]
    np.testing.assert_array_equal(g.get_logits()[1, 0], backend.logits_after([3, 4, 60]))


def test_logits_alone_can_begin_a_sequence(folder):
    backend = fake_backend()
    g = open_generator(folder, backend)
    forced = np.zeros(VOCAB_SIZE, np.float32)
    forced[9] = 1
    g.set_logits(forced)
    g.generate_next_token()
    g.generate_next_token()
    assert g.get_sequence(0).tolist() == [9, *greedy(backend, [9], 1)]


def test_logits_of_a_wrong_size_are_refused(folder):
    with pytest.raises(OptionError, match=rf"expected {VOCAB_SIZE} numbers"):
        open_generator(folder).set_logits([1.0, 2.0])


def test_finished_rows_have_no_logits(folder):
    backend = fake_backend(continuations={(5, 6): (), (8, 9): (10, 11)}, eos_token_id=EOS)
    g = open_generator(folder, backend, batch_size=2)
    g.append_tokens([[5, 6], [8, 9]])
    g.generate_next_token()
    logits = g.get_logits()
    assert np.isnan(logits[0]).all()
    assert np.isfinite(logits[1]).all()


def test_nothing_can_be_read_before_there_is_something(folder):
    g = open_generator(folder)
    assert not g.is_done()
    assert g.token_count() == 0
    assert g.get_sequence(0).tolist() == []
    for call in (g.generate_next_token, g.get_logits):
        with pytest.raises(StateError, match="call append_tokens"):
            call()
    with pytest.raises(StateError, match="no token was generated yet"):
        g.get_next_tokens()
    with pytest.raises(OptionError, match="sequence 1 was asked for; there are 1"):
        g.get_sequence(1)


def test_a_prompt_that_is_too_long_is_refused_with_both_numbers_and_the_way_out(folder):
    g = open_generator(folder, max_length=20)
    with pytest.raises(
        ContextLengthError, match=r"30 prompt tokens do not fit max_length=20.*larger max_length"
    ):
        g.append_tokens([1] * 30)
    with pytest.raises(ContextLengthError, match=rf"{CONTEXT + 1} prompt tokens.*context is {CONTEXT}"):
        g.append_tokens([1] * (CONTEXT + 1))
    g.append_tokens([1] * 19)
    with pytest.raises(ContextLengthError, match="2 prompt tokens after the 19 there are"):
        g.append_tokens([1, 1])
    g.generate_next_token()
    assert g.is_done()
    with pytest.raises(ContextLengthError, match="20 of 20 tokens"):
        g.generate_next_token()


def test_max_length_defaults_to_the_context_and_cannot_exceed_it(folder):
    g = open_generator(folder, fake_backend(continuations={(1,): [3] * 500}))
    g.append_tokens([1])
    run(g)
    assert g.token_count() == CONTEXT
    with pytest.raises(ContextLengthError, match=f"max_length is {CONTEXT + 1}.*context is {CONTEXT}"):
        open_generator(folder, max_length=CONTEXT + 1)


@pytest.mark.parametrize("bad", [[-1], [VOCAB_SIZE], [1, 2**40]])
def test_token_ids_outside_the_vocabulary_are_refused(folder, bad):
    g = open_generator(folder)
    with pytest.raises(TokenIdError, match="outside"):
        g.append_tokens(bad)
    assert g.token_count() == 0


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_a_failing_step_leaves_the_generator_usable(folder, fails):
    backend = fake_backend(fail_steps={fails})
    g = open_generator(folder, backend, chunk_size=2, max_length=8)
    try:
        g.append_tokens([5, 6, 7, 8])
    except BackendError:
        assert g.token_count() == 0
        g.append_tokens([5, 6, 7, 8])
    try:
        run(g)
    except BackendError:
        run(g)
    assert g.get_sequence(0).tolist() == [5, 6, 7, 8, *greedy(backend, [5, 6, 7, 8], 4)]
    assert backend.num_steps > 2 + fails


def test_prompts_are_processed_in_chunks(folder):
    backend = fake_backend()
    g = open_generator(folder, backend, chunk_size=4)
    g.append_tokens(range(1, 11))
    assert [step.num_tokens for step in backend.steps] == [4, 4, 2]
    assert [len(step.logits_rows) for step in backend.steps] == [0, 0, 1]


def test_ngrams_do_not_repeat(folder):
    g = open_generator(
        folder, fake_backend(continuations={(1,): [3] * 50}), no_repeat_ngram_size=2, max_length=30
    )
    g.append_tokens([1])
    run(g)
    text = g.get_sequence(0).tolist()
    pairs = list(itertools.pairwise(text))
    assert len(set(pairs)) == len(pairs)


def test_the_minimum_length_counts_the_prompt(folder):
    g = open_generator(
        folder, fake_backend(continuations={(1, 4): ()}, eos_token_id=EOS), min_length=5, max_length=9
    )
    g.append_tokens([1, 4])
    run(g, 3)
    assert EOS not in g.get_sequence(0)
    assert g.token_count() == 5


def test_a_seed_reproduces_and_rows_differ(folder):
    def sample(**search):
        g = open_generator(
            folder, do_sample=True, temperature=5.0, top_k=0, top_p=1.0, max_length=12, **search
        )
        g.append_tokens([[1, 2]] * search.get("batch_size", 1))
        run(g)
        return [g.get_sequence(i).tolist() for i in range(search.get("batch_size", 1))]

    alone = sample(random_seed=42)
    assert sample(random_seed=42) == alone
    rows = sample(random_seed=42, batch_size=2)
    assert rows == sample(random_seed=42, batch_size=2)
    assert rows[0][2] == alone[0][2]  # the first row draws first
    assert rows[1] != rows[0]
    assert sample(random_seed=43) != alone
    assert sample() != sample()


def test_two_threads_on_one_generator_are_refused(folder):
    entered, leave = threading.Event(), threading.Event()
    backend = fake_backend()
    execute = backend.execute

    def slow(step, cache):
        entered.set()
        assert leave.wait(10)
        return execute(step, cache)

    backend.execute = slow
    g = open_generator(folder, backend)
    worker = threading.Thread(target=g.append_tokens, args=([1, 2],))
    worker.start()
    assert entered.wait(10)
    try:
        for call in (g.generate_next_token, lambda: g.append_tokens([3]), g.get_logits, g.close):
            with pytest.raises(StateError, match="in use by another thread"):
                call()
    finally:
        leave.set()
        worker.join()
    g.generate_next_token()
    assert g.token_count() == 3


def test_a_model_may_be_shared_by_threads(folder):
    backend = fake_backend()
    model = open_model(folder, backend)
    answers = {}

    def work(i):
        params = GeneratorParams(model)
        params.set_search_options(max_length=20)
        g = Generator(model, params)
        g.append_tokens([i + 3, 4])
        run(g)
        answers[i] = g.get_sequence(0).tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {i: [i + 3, 4, *greedy(backend, [i + 3, 4], 18)] for i in range(8)}


def test_generators_that_are_dropped_leave_nothing_behind(folder):
    backend = fake_backend()
    model = open_model(folder, backend)

    def once(end):
        g = Generator(model, GeneratorParams(model))
        g.append_tokens([1, 2, 3])
        run(g, 4)
        backend.steps.clear()
        end(g)

    def flat(end):
        once(end)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            once(end)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return grown

    # the interpreter's own tables grow now and then, which is no leak: what leaks does so each time
    assert min(flat(lambda g: None) for _ in range(2)) < 50_000
    assert min(flat(lambda g: g.close()) for _ in range(2)) < 50_000


def test_closing_is_idempotent_and_final(folder):
    with open_generator(folder) as g:
        g.append_tokens([1])
    g.close()
    with pytest.raises(StateError, match="closed"):
        g.generate_next_token()


def test_a_terminated_session_stops_until_it_may_go_on(folder):
    g = open_generator(folder)
    g.append_tokens([1])
    g.set_runtime_option("terminate_session", "1")
    with pytest.raises(StateError, match="terminate_session"):
        g.generate_next_token()
    g.set_runtime_option("terminate_session", "0")
    g.generate_next_token()
    with pytest.raises(CapabilityError, match="'lang_id'"):
        g.set_runtime_option("lang_id", "en")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("get_input", ("pixel_values",)),
        ("get_output", ("present.0.key",)),
        ("set_model_input", ("x", [1.0])),
        ("set_hidden_states", ([1.0],)),
        ("set_inputs", ({"pixel_values": [1.0]},)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_supported_says_so(folder, method, arguments):
    with pytest.raises(CapabilityError):
        getattr(open_generator(folder), method)(*arguments)


def test_input_ids_may_come_as_named_tensors(folder):
    g = open_generator(folder)
    g.set_inputs({"input_ids": [1, 2]})
    g.snapshot_state()
    assert g.token_count() == 2


@pytest.mark.parametrize("length", ["x", 1.5, None])
def test_a_rewind_to_no_number_changes_nothing(folder, length):
    run = open_generator(folder)
    run.append_tokens([5, 6, 7])
    with pytest.raises(TypeError):
        run.rewind_to(length)
    assert run.get_sequence(0).tolist() == [5, 6, 7]
    run.generate_next_token()
    assert run.token_count() == 4


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_shared_buffer_holds_max_length_at_once_and_others_grow(tmp_path, num_beams):
    folder = write_model_folder(tmp_path / "long", context=1000)
    answers = []
    for shared in (True, False):
        backend = fake_backend(max_context=1000)
        create, sizes = backend.create_cache, []

        def noted(create=create, sizes=sizes, **size):
            sizes.append(size["num_tokens"])
            return create(**size)

        backend.create_cache = noted
        g = open_generator(
            folder,
            backend,
            past_present_share_buffer=shared,
            num_beams=num_beams,
            max_length=700,
            min_length=700,
        )
        g.append_tokens(np.arange(250) % 50 + 5)
        for _ in range(20):
            g.generate_next_token()
        assert sizes == ([700] if shared else [256, 512])
        answers.append(g.get_sequence(0).tolist())
    assert answers[0] == answers[1]


def test_the_last_run_gives_logits_of_every_token_it_was_fed(folder):
    backend = fake_backend(continuations={(5, 6): (7, 8, 9)}, eos_token_id=EOS)
    g = open_generator(folder, backend, batch_size=2)
    g.append_tokens([[5, 6, PAD], [8, 9, 10]])
    logits = g.get_output("logits")
    assert logits.shape == (2, 3, VOCAB_SIZE)
    for row, text in enumerate(([5, 6], [8, 9, 10])):
        for n in range(len(text)):
            np.testing.assert_array_equal(logits[row, n], backend.logits_after(text[: n + 1]))
    assert np.isnan(logits[0, 2]).all()
    np.testing.assert_array_equal(g.get_logits()[1, 0], logits[1, 2])
    g.generate_next_token()  # chosen from what the prompt gave; nothing was run
    assert g.get_output("logits").shape == (2, 3, VOCAB_SIZE)
    num_steps = len(backend.steps)
    second = int(g.get_next_tokens()[1])
    g.generate_next_token()
    after_first = [backend.logits_after([5, 6, 7]), backend.logits_after([8, 9, 10, second])]
    np.testing.assert_array_equal(g.get_output("logits")[:, 0], after_first)
    np.testing.assert_array_equal(g.get_output("logits").shape, (2, 1, VOCAB_SIZE))
    assert [step.num_tokens for step in backend.steps[num_steps:]][-1] == 2
    g.get_logits()  # runs the second token
    assert not np.array_equal(g.get_output("logits")[1, 0], after_first[1])
    np.testing.assert_array_equal(g.get_output("logits"), g.get_logits())
