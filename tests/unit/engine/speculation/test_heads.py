"""`HeadProposer` on scripted heads, against the chain of guesses worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.speculation.base import Wanted
from onnxgen.engine.speculation.heads import HeadOptions, HeadProposer
from onnxgen.errors import BackendError, CapabilityError, ConfigError, StateError
from scripted_heads import ANY, HIDDEN, VOCAB, head_backend, head_spec

KINDS = {"paged": {"block_size": 4}, "slots": {}, "windowed": {"block_size": 4, "window": 40}}


class Row:
    """How tokens of a sequence are chosen."""

    mask, processors, sampler = None, (), None

    def __init__(self, tokens, num_prompt, options):
        self.options, self.row_state = options, RowState()
        self.history = np.array(tokens, np.int64)
        self.num_tokens, self.num_new_tokens = len(tokens), len(tokens) - num_prompt


GREEDY = SamplingOptions(seed=1)
TARGET = FakeBackend(VOCAB, hidden_size=HIDDEN)


def proposer_of(backend, *, spec=None, **options):
    return HeadProposer(backend, spec or head_spec(), **{"vocab_size": VOCAB, "options": ANY, **options})


def hidden_of(tokens, first):
    """What the target has made of the tokens before the last, from position ``first`` on."""
    rows = [TARGET.hidden_after(tokens[: at + 1]) for at in range(first, len(tokens) - 1)]
    return np.array(rows, np.float32).reshape(-1, HIDDEN)


def wanted(key, tokens, num_tokens, *, first, num_prompt=1, options=GREEDY):
    hidden = hidden_of(tokens, first)
    row = Row(tokens, num_prompt, options)
    return Wanted(key=key, history=row.history, num_tokens=num_tokens, row=row, hidden=hidden)


def chain(head, tokens, count, *, start):
    """The best guesses after a sequence of which the head knows what lies behind position ``start``."""
    said = [
        head.token_beside(tokens[at + 1], TARGET.hidden_after(tokens[: at + 1]))
        for at in range(start, len(tokens) - 1)
    ]
    guesses = []
    for _ in range(count):
        guesses.append(int(head.logits_after(said).argmax()))
        said.append(head.token_beside(guesses[-1], head.hidden_after(said)))
    return guesses


@pytest.fixture
def rng():
    generator = np.random.default_rng()
    print("state", generator.bit_generator.state)
    return generator


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_are_chained_from_what_the_model_and_then_the_head_made(kind, rng):
    head = head_backend(**KINDS[kind])
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=9).tolist()
    first = 3  # the hidden states before are not known
    for count in (1, 4, 3, 8):
        (draft,) = proposer.propose([wanted(7, tokens, count, first=first)])
        proposer.check_integrity()
        assert draft is not None
        assert draft.distributions is None
        assert list(draft.tokens) == chain(head, tokens, count, start=3)
        # some guesses are right, and then something else comes
        first = len(tokens) - 1
        tokens += [*draft.tokens[: count // 2], *rng.integers(VOCAB, size=1).tolist()]


@pytest.mark.parametrize("kind", KINDS)
def test_many_sequences_are_guessed_together_as_each_alone(kind, rng):
    head = head_backend(**KINDS[kind])
    proposer = proposer_of(head)
    sequences = {key: rng.integers(VOCAB, size=int(rng.integers(2, 12))).tolist() for key in range(5)}
    starts = {key: int(rng.integers(0, len(tokens) - 1)) for key, tokens in sequences.items()}
    first = dict(starts)
    for _ in range(6):
        asked = [key for key in sequences if rng.random() < 0.7]
        wishes = {key: int(rng.integers(1, 6)) for key in asked}
        before = head.num_steps
        drafts = proposer.propose(
            [wanted(key, sequences[key], wishes[key], first=first[key]) for key in asked]
        )
        proposer.check_integrity()
        assert head.num_steps - before == max(wishes.values(), default=0)
        for key, draft in zip(asked, drafts, strict=True):
            assert list(draft.tokens) == chain(head, sequences[key], wishes[key], start=starts[key])
            first[key] = len(sequences[key]) - 1
        for tokens in sequences.values():  # those that were not asked for get tokens, too
            tokens += rng.integers(VOCAB, size=int(rng.integers(1, 4))).tolist()


def test_without_hidden_states_nothing_is_guessed(rng):
    head = head_backend()
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=6).tolist()
    asked = wanted(1, tokens, 3, first=0)
    asked.hidden = None
    assert proposer.propose([asked]) == [None]
    assert proposer.propose([wanted(1, tokens, 3, first=len(tokens) - 1)]) == [None]
    assert head.num_steps == 0


@pytest.mark.parametrize("change", ["a gap", "other tokens", "a shorter sequence"])
def test_where_hidden_states_do_not_go_on_the_head_begins_again(change, rng):
    head = head_backend(block_size=4)
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=12).tolist()
    proposer.propose([wanted(1, tokens, 3, first=2)])
    if change == "a gap":
        tokens += rng.integers(VOCAB, size=4).tolist()
        first = 13
    elif change == "other tokens":
        tokens[5] = (tokens[5] + 1) % VOCAB
        tokens.append(3)
        first = 11
    else:
        del tokens[6:]
        tokens.append(3)
        first = 1
    (draft,) = proposer.propose([wanted(1, tokens, 3, first=first)])
    assert list(draft.tokens) == chain(head, tokens, 3, start=first)


def test_hidden_states_that_overlap_what_is_known_are_computed_anew(rng):
    head = head_backend(block_size=4)
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=12).tolist()
    proposer.propose([wanted(1, tokens, 3, first=2)])
    before = head.num_tokens
    (draft,) = proposer.propose([wanted(1, tokens, 1, first=8)])
    assert list(draft.tokens) == chain(head, tokens, 1, start=2)
    assert head.num_tokens - before == 3


def test_two_sequences_of_the_same_tokens_share_nothing(rng):
    head = head_backend(block_size=2)
    proposer, tail = proposer_of(head), rng.integers(VOCAB, size=9).tolist()
    for key, tokens in enumerate(([1, 2, *tail], [3, 4, *tail])):
        (draft,) = proposer.propose([wanted(key, tokens, 2, first=2)])
        assert list(draft.tokens) == chain(head, tokens, 2, start=2)
        proposer.forget(key)  # what an ended sequence leaves is of no use to another


def test_a_vocabulary_of_its_own_is_mapped(rng):
    ids = rng.permutation(VOCAB)[:7].tolist()
    head = FakeBackend(7, hidden_size=HIDDEN, reads_hidden=True)
    # the fake has as many ids as logits, so tokens of the sequence are few here
    proposer = proposer_of(head, spec=head_spec(target_ids=tuple(ids)))
    tokens = rng.integers(7, size=8).tolist()
    (draft,) = proposer.propose([wanted(1, tokens, 1, first=0)])
    (own,) = chain(head, tokens, 1, start=0)
    assert draft.tokens == (ids[own],)
    sampled = SamplingOptions(temperature=1.0, seed=5)
    (draft,) = proposer.propose([wanted(2, tokens, 1, first=0, options=sampled)])
    found, shares = draft.distributions[0]
    assert set(found.tolist()) <= set(ids)
    assert draft.tokens[0] in found
    said = [head.token_beside(t, h) for t, h in zip(tokens[1:], hidden_of(tokens, 0), strict=True)]
    logits = head.logits_after(said).astype(np.float64)
    want = dict(zip(ids, np.exp(logits) / np.exp(logits).sum(), strict=True))
    assert shares == pytest.approx([want[int(t)] for t in found], rel=1e-4)


def test_a_smaller_vocabulary_without_a_map_is_the_first_ids(rng):
    head = FakeBackend(7, hidden_size=HIDDEN, reads_hidden=True)
    proposer, tokens = proposer_of(head), rng.integers(7, size=8).tolist()
    (draft,) = proposer.propose([wanted(1, tokens, 4, first=0)])
    assert list(draft.tokens) == chain(head, tokens, 4, start=0)


def test_drawn_guesses_say_what_they_were_drawn_from(rng):
    head = head_backend()
    options = SamplingOptions(temperature=0.7, top_k=5, seed=int(rng.integers(2**31)))
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=8).tolist()
    (draft,) = proposer.propose([wanted(1, tokens, 4, first=0, options=options)])
    assert len(draft.tokens) == len(draft.distributions) == 4
    for token, (ids, shares) in zip(draft.tokens, draft.distributions, strict=True):
        assert token in ids
        assert len(ids) == 5
        assert shares.sum() == pytest.approx(1.0)


def test_unsure_guesses_end_a_draft(rng):
    head, tokens = head_backend(), rng.integers(VOCAB, size=8).tolist()
    assert proposer_of(head, options=HeadOptions(cache_tokens=4096, min_confidence=1.0)).propose(
        [wanted(1, tokens, 4, first=0)]
    ) == [None]


def test_nothing_is_guessed_behind_an_end(rng):
    head, tokens = head_backend(), rng.integers(VOCAB, size=8).tolist()
    guesses = chain(head, tokens, 6, start=0)
    (draft,) = proposer_of(head, eos_ids=[guesses[2]]).propose([wanted(1, tokens, 6, first=0)])
    end = guesses.index(guesses[2])
    assert list(draft.tokens) == guesses[: end + 1]


def test_a_head_is_not_asked_for_more_than_it_is_made_for(rng):
    head, tokens = head_backend(), rng.integers(VOCAB, size=8).tolist()
    proposer = proposer_of(head, spec=head_spec(max_draft_tokens=2))
    for first in (0, 7):
        (draft,) = proposer.propose([wanted(1, tokens, 6, first=first)])
        assert list(draft.tokens) == chain(head, tokens, 2, start=0)
        tokens.append(3)


def test_a_full_context_begins_again_with_the_newest(rng):
    head = head_backend(max_context=12)
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=10).tolist()
    (draft,) = proposer.propose([wanted(1, tokens, 3, first=0)])
    assert list(draft.tokens) == chain(head, tokens, 3, start=0)
    tokens += [1, 2, 3]
    (draft,) = proposer.propose([wanted(1, tokens, 3, first=9)])
    assert list(draft.tokens) == chain(head, tokens, 3, start=9)
    tokens = rng.integers(VOCAB, size=40).tolist()
    (draft,) = proposer.propose([wanted(2, tokens, 3, first=0)])
    assert list(draft.tokens) == chain(head, tokens, 1, start=27)


def test_sequences_without_room_go_without_drafts(rng):
    head = head_backend(block_size=4, max_context=64)
    proposer = proposer_of(head, options=HeadOptions(cache_tokens=12, min_confidence=0.0))
    sequences = {key: rng.integers(VOCAB, size=8).tolist() for key in (1, 2)}
    drafts = proposer.propose([wanted(key, tokens, 2, first=0) for key, tokens in sequences.items()])
    assert [draft is None for draft in drafts] == [False, True]
    proposer.forget(1)
    drafts = proposer.propose([wanted(2, sequences[2], 2, first=0)])
    assert list(drafts[0].tokens) == chain(head, sequences[2], 2, start=0)


@pytest.mark.parametrize("failing", [0, 1])
def test_a_step_that_fails_costs_nothing_but_what_was_known(failing, rng):
    head = head_backend(block_size=4, fail_steps=[4 + failing])
    proposer, tokens = proposer_of(head), rng.integers(VOCAB, size=9).tolist()
    (draft,) = proposer.propose([wanted(1, tokens, 4, first=0)])
    tokens += draft.tokens[:2]
    with pytest.raises(BackendError):
        proposer.propose([wanted(1, tokens, 3, first=8)])
    proposer.check_integrity()
    first = len(tokens) - 1
    tokens += [4, 5]
    (draft,) = proposer.propose([wanted(1, tokens, 3, first=first)])
    # what the failed step would have added is missing, if it was the first of its turn
    assert list(draft.tokens) == chain(head, tokens, 3, start=first if failing == 0 else 0)


def test_heads_that_cannot_be_used_are_refused():
    with pytest.raises(
        CapabilityError, match=r"head\.onnx has no input 'hidden'.*model\.mtp\.inputs\.hidden_states"
    ):
        proposer_of(FakeBackend(VOCAB, hidden_size=HIDDEN))
    with pytest.raises(CapabilityError, match="recurrent state"):
        proposer_of(head_backend(rewind=False))
    with pytest.raises(CapabilityError, match="aux_hidden_states"):
        proposer_of(head_backend(), spec=head_spec(reads_aux=True))


def test_hidden_states_of_another_width_are_refused(rng):
    proposer, tokens = proposer_of(head_backend()), rng.integers(VOCAB, size=9).tolist()
    asked = wanted(1, tokens, 3, first=0)
    asked.hidden = np.zeros((8, HIDDEN + 2), np.float32)
    with pytest.raises(CapabilityError, match=f"{HIDDEN} wide, the model gives {HIDDEN + 2}"):
        proposer.propose([asked])


@pytest.mark.parametrize(
    "bad",
    [
        {"cache_mb": 0},
        {"cache_mb": True},
        {"cache_tokens": "7"},
        {"min_confidence": 1.5},
        {"min_confidence": "a"},
    ],
)
def test_options_out_of_range_are_named(bad):
    with pytest.raises(ConfigError, match=f"{next(iter(bad))} of a head is"):
        HeadOptions(**bad)


def test_a_cache_has_one_size():
    with pytest.raises(ConfigError, match="cache_mb=3 and cache_tokens=4 both size the cache of a head"):
        HeadOptions(cache_mb=3, cache_tokens=4)


def test_a_closed_proposer_says_so(rng):
    proposer, tokens = proposer_of(head_backend()), rng.integers(VOCAB, size=9).tolist()
    proposer.close()
    proposer.close()
    with pytest.raises(StateError):
        proposer.propose([wanted(1, tokens, 3, first=0)])
