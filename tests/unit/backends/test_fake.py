import numpy as np
import pytest

from onnxgen.backends.adapters import Adapter
from onnxgen.backends.base import WINDOW_STEP_TOKENS, BlockCopy, SequenceInput, pack_step
from onnxgen.backends.fake import FakeBackend
from onnxgen.errors import BackendError, CapabilityError, ConfigError, StateError, StepError, TokenIdError


def greedy(backend, prompt, count, *, blocks=(0,)):
    cache = backend.create_cache(num_seqs=1, num_tokens=len(prompt) + count)
    blocks = range(cache.geometry.num_blocks) if blocks is None else blocks
    new, context, out = list(prompt), 0, []
    for _ in range(count):
        logits = backend.execute(pack_step([SequenceInput(new, context, blocks)]), cache).logits
        context += len(new)
        new = [int(logits[0].argmax())]
        out += new
    return out


def test_the_script_is_followed_and_ended():
    backend = FakeBackend(16, continuations={(1, 2): [7, 8]}, eos_token_id=3)
    assert greedy(backend, [1, 2], 3) == [7, 8, 3]


def test_the_longest_prompt_of_the_script_wins():
    backend = FakeBackend(16, continuations={(): [5] * 9, (1,): [6], (1, 2): [7]})
    assert greedy(backend, [1, 2], 1) == [7]
    assert greedy(backend, [1], 1) == [6]


def test_off_the_script_answers_are_reproducible_and_depend_on_the_whole_sequence():
    a, b = FakeBackend(64), FakeBackend(64)
    assert greedy(a, [1, 2, 3], 8) == greedy(b, [1, 2, 3], 8)
    assert not np.array_equal(a.logits_after([1, 2, 3]), a.logits_after([2, 1, 3]))


def test_blocks_may_come_in_any_order():
    backend = FakeBackend(64, block_size=2)
    assert greedy(backend, [1, 2, 3], 4, blocks=(3, 0, 2, 1)) == greedy(FakeBackend(64), [1, 2, 3], 4)


def test_a_wrong_block_changes_the_answer_or_is_refused():
    backend = FakeBackend(64, block_size=2)
    cache = backend.create_cache(num_seqs=2, num_tokens=6)
    backend.execute(
        pack_step([SequenceInput([1, 2, 3], 0, [0, 1]), SequenceInput([4, 5, 6], 0, [2, 3])]), cache
    )
    right = backend.execute(pack_step([SequenceInput([9], 3, [0, 1])]), cache).logits
    wrong = backend.execute(pack_step([SequenceInput([9], 3, [2, 1])]), cache).logits
    assert not np.array_equal(right, wrong)
    with pytest.raises(StepError, match="position 2 was never written in block 4"):
        backend.execute(pack_step([SequenceInput([9], 3, [0, 4])]), cache)


def test_a_failing_step_touches_nothing_below_the_context():
    backend = FakeBackend(64, fail_steps={1})
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    backend.execute(pack_step([SequenceInput([1, 2], 0, [0])]), cache)
    with pytest.raises(BackendError, match="step 1"):
        backend.execute(pack_step([SequenceInput([3, 4], 2, [0])]), cache)
    again = backend.execute(pack_step([SequenceInput([3, 4], 2, [0])]), cache)
    assert np.array_equal(again.logits[0], backend.logits_after([1, 2, 3, 4]))
    assert (backend.num_steps, backend.num_tokens) == (3, 4)


def test_a_step_fails_for_the_sequence_it_was_told_to_as_often_as_it_is_tried():
    backend = FakeBackend(64, fail_when=lambda tokens: tokens[-2:] == [13, 14])
    cache = backend.create_cache(num_seqs=2, num_tokens=8)
    good, bad = SequenceInput([1, 13], 0, [0]), SequenceInput([14], 2, [1])
    backend.execute(pack_step([SequenceInput([2, 13], 0, [1])]), cache)
    for _ in range(2):
        with pytest.raises(BackendError, match="of sequence 1"):
            backend.execute(pack_step([good, bad]), cache)
    with pytest.raises(BackendError, match="of sequence 0"):
        backend.execute(pack_step([bad]), cache)
    out = backend.execute(pack_step([good, SequenceInput([15], 2, [1])]), cache).logits
    assert np.array_equal(out[0], backend.logits_after([1, 13]))
    assert np.array_equal(out[1], backend.logits_after([2, 13, 15]))


def test_a_state_that_is_copied_replaces_what_the_target_held():
    backend = FakeBackend(64, rewind=False)
    cache = backend.create_cache(num_seqs=2, num_tokens=8)
    backend.execute(pack_step([SequenceInput([1, 2], 0, [0]), SequenceInput([3, 4, 5, 6], 0, [1])]), cache)
    step = pack_step([SequenceInput([7], 2, [1])], copies=[BlockCopy(0, 1, 2)])
    assert np.array_equal(backend.execute(step, cache).logits[0], backend.logits_after([1, 2, 7]))


def test_without_rewind_only_the_whole_length_or_nothing_goes_on():
    backend = FakeBackend(64, rewind=False)
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    backend.execute(pack_step([SequenceInput([1, 2, 3], 0, [0])]), cache)
    with pytest.raises(StepError, match="holds 3 tokens and cannot go back to 2"):
        backend.execute(pack_step([SequenceInput([3], 2, [0])]), cache)
    backend.execute(pack_step([SequenceInput([4], 0, [0])]), cache)
    out = backend.execute(pack_step([SequenceInput([5], 1, [0])]), cache)
    assert np.array_equal(out.logits[0], backend.logits_after([4, 5]))


def test_hidden_states_belong_to_the_wanted_rows():
    backend = FakeBackend(64, hidden_size=4)
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    step = pack_step([SequenceInput([1, 2, 3], 0, [0], logits="all")], want_hidden_states=True)
    hidden = backend.execute(step, cache).hidden_states
    assert hidden is not None
    assert hidden.shape == (3, 4)


def test_copies_are_done_in_order_before_the_step():
    backend = FakeBackend(64, block_size=4)
    cache = backend.create_cache(num_seqs=3, num_tokens=4)
    backend.execute(pack_step([SequenceInput([1, 2, 3], 0, [0])]), cache)
    step = pack_step([SequenceInput([9], 2, [2])], copies=[BlockCopy(0, 1, 3), BlockCopy(1, 2, 2)])
    assert np.array_equal(backend.execute(step, cache).logits[0], backend.logits_after([1, 2, 9]))


def test_misuse_is_refused():
    backend = FakeBackend(8, max_context=4)
    with pytest.raises(CapabilityError, match="5 tokens; the context is 4"):
        backend.create_cache(num_seqs=1, num_tokens=5)
    cache = backend.create_cache(num_seqs=1, num_tokens=4)
    with pytest.raises(TokenIdError, match=r"token id 8 at row 0 is outside \[0, 8\)"):
        backend.execute(pack_step([SequenceInput([8], 0, [0])]), cache)
    with pytest.raises(StepError, match="another backend"):
        FakeBackend(8).execute(pack_step([SequenceInput([1], 0, [0])]), cache)
    cache.close()
    cache.close()
    assert cache.num_bytes == 0
    with pytest.raises(StateError, match="cache was closed"):
        backend.execute(pack_step([SequenceInput([1], 0, [0])]), cache)
    backend.close()
    backend.close()
    with pytest.raises(StateError, match="backend was closed"):
        backend.create_cache(num_seqs=1, num_tokens=4)


def test_a_group_of_windows_gives_the_same_answers_and_notices_what_is_wrong():
    backend = FakeBackend(block_size=4, window=6, max_context=4096)
    cache = backend.create_cache(num_seqs=1, num_tokens=2048, window_group=True)
    assert cache.geometry.window_blocks == -(-(6 + WINDOW_STEP_TOKENS) // 4) + 1
    plain = backend.create_cache(num_seqs=1, num_tokens=2048)
    assert plain.geometry.window_blocks == 0
    tokens = np.random.default_rng(3).integers(0, 32, 30).tolist()
    for at, token in enumerate(tokens):
        number, first = at // 4, max(at - 5, 0) // 4
        window_blocks = [-1] * first + [n % 3 for n in range(first, number + 1)]  # three blocks take turns
        part = SequenceInput([token], at, list(range(number + 1)), window_blocks=window_blocks)
        (row,) = backend.execute(pack_step([part]), cache).logits
        np.testing.assert_array_equal(row, backend.logits_after(tokens[: at + 1]))
    wrong = SequenceInput([1], 30, list(range(8)), window_blocks=[-1] * 6 + [1, 1])
    (row,) = backend.execute(pack_step([wrong]), cache).logits
    assert not np.array_equal(row, backend.logits_after([*tokens, 1]))
    empty = SequenceInput([1], 30, list(range(8)), window_blocks=[-1] * 6 + [3, 1])
    with pytest.raises(StepError, match="never written"):
        backend.execute(pack_step([empty]), cache)


def test_a_state_that_cannot_go_back_lies_in_one_slot():
    with pytest.raises(ConfigError, match=r"block_size=4 and rewind=False"):
        FakeBackend(block_size=4, rewind=False)


def test_an_adapter_changes_answers_and_what_the_cache_holds():
    backend = FakeBackend(64, continuations={(): [5] * 9})
    for name in ("a", "b"):
        backend.adapters.load(Adapter(name, source="nowhere", digest=f"digest of {name}"))
    cache = backend.create_cache(num_seqs=2, num_tokens=8)
    parts = [SequenceInput([1, 2], 0, [0], adapter="a"), SequenceInput([1, 2], 0, [1])]
    under_a, plain = backend.execute(pack_step(parts), cache).logits
    np.testing.assert_array_equal(under_a, backend.logits_after([1, 2], adapter="a"))
    np.testing.assert_array_equal(plain, backend.logits_after([1, 2]))
    go_on = backend.execute(pack_step([SequenceInput([3], 2, [0], adapter="a")]), cache).logits[0]
    np.testing.assert_array_equal(go_on, backend.logits_after([1, 2, 3], adapter="a"))
    mixed = backend.execute(pack_step([SequenceInput([3], 2, [0], adapter="b")]), cache).logits[0]
    assert not np.array_equal(mixed, backend.logits_after([1, 2, 3], adapter="b"))
    with pytest.raises(StepError, match="adapter 'c' is not loaded"):
        backend.execute(pack_step([SequenceInput([3], 2, [0], adapter="c")]), cache)


def test_a_backend_of_one_adapter_a_step_refuses_two():
    backend = FakeBackend(64, adapters="step")
    backend.adapters.load(Adapter("a", source="nowhere", digest="digest"))
    cache = backend.create_cache(num_seqs=2, num_tokens=8)
    with pytest.raises(StepError, match="one adapter to a whole step"):
        backend.execute(
            pack_step([SequenceInput([1], 0, [0], adapter="a"), SequenceInput([1], 0, [1])]), cache
        )
