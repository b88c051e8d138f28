from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from list_grammars import ListCompiler, lists
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.sampling.rows import RowSampler
from onnxgen.engine.sampling.state import RowState
from onnxgen.engine.speculation.acceptance import accept
from onnxgen.engine.speculation.base import Wanted
from onnxgen.engine.speculation.draft_model import DraftModelProposer
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.errors import BackendError, ConfigError, StateError

VOCAB = 32
ANY = DraftModelOptions(min_confidence=0.0, cache_tokens=4096)
KINDS = {
    "paged": {"block_size": 4},
    "slots": {},
    "recurrent": {"rewind": False},
    "windowed": {"block_size": 4, "window": 6},
}


@dataclass(eq=False)
class Target:
    """One sequence of a model that drafts are made for, and what checks them."""

    model: FakeBackend
    options: SamplingOptions
    tokens: list[int]
    row_state: RowState = field(default_factory=RowState)
    mask = None
    processors = ()
    sampler = None

    def __post_init__(self):
        self.num_prompt = len(self.tokens)
        self.sampler_of_rows = RowSampler(eos_ids=())

    @property
    def num_tokens(self):
        return len(self.tokens)

    @property
    def num_new_tokens(self):
        return len(self.tokens) - self.num_prompt

    @property
    def history(self):
        return np.array(self.tokens, np.int64)

    def wanted(self, key, num_tokens):
        return Wanted(key=key, history=self.history, num_tokens=num_tokens, row=self)

    def next_token(self):
        """What is drawn without a draft, and from what."""
        logits = self.model.logits_after(self.tokens)[None]
        (token,), drawn = self.sampler_of_rows.choose_and_keep(logits, [self], keep=[0])
        assert isinstance(token, int), token
        return token, drawn[0]

    def check(self, draft):
        """Append what stands of a draft; how much of the draft that was."""
        start, rows = len(self.tokens), []
        for token in (*(draft.tokens if draft else ()), None):
            rows.append(self.next_token())
            if token is not None:
                self.tokens.append(token)
        del self.tokens[start:]
        if draft is not None and draft.distributions is not None:
            stands = accept(
                draft,
                [drawn for _, drawn in rows],
                seed=self.options.seed,
                stream=self.options.stream,
                position=start,
            )
        else:
            guesses = draft.tokens if draft else ()
            own = [token for token, _ in rows]
            same = [a == b for a, b in zip(guesses, own, strict=False)]
            stands = own[: 1 + (same.index(False) if False in same else len(same))]
        self.tokens += stands
        return len(stands) - 1


def _greedy(**options):
    return SamplingOptions(seed=1, **options)


def _sampled(seed, **options):
    return SamplingOptions(temperature=1.0, seed=seed, **options)


def _proposer(backend, **options):
    return DraftModelProposer(backend, **{"vocab_size": VOCAB, "options": ANY, **options})


def _plain(model, options, prompt, count):
    target = Target(model, options, list(prompt))
    for _ in range(count):
        target.tokens.append(target.next_token()[0])
    return target.tokens


def _turn(proposer, targets, num_tokens):
    drafts = proposer.propose([t.wanted(key, num_tokens) for key, t in targets.items()])
    proposer.check_integrity()
    return dict(zip(targets, drafts, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("greedy", [True, False])
def test_a_model_accepts_all_of_its_own_drafts(kind, greedy):
    rng = np.random.default_rng()
    seed = int(rng.integers(2**63))
    print("seed", seed)
    options = _greedy() if greedy else _sampled(seed, top_p=0.9)
    model = FakeBackend(VOCAB, **KINDS[kind])
    target = Target(model, options, rng.integers(VOCAB, size=7).tolist())
    proposer = _proposer(model)
    for wish in (1, 3, 5, 2, 8):
        draft = _turn(proposer, {9: target}, wish)[9]
        assert draft is not None and len(draft.tokens) == wish
        assert target.check(draft) == wish
    if greedy:
        assert target.tokens == _plain(model, options, target.tokens[:7], len(target.tokens) - 7)
    proposer.close()


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_that_come_go_and_are_set_back_get_the_drafts_that_the_model_would_give_them_alone(kind):
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    model, other = FakeBackend(VOCAB, max_context=128, **KINDS[kind]), FakeBackend(VOCAB, hidden_size=2)
    proposer = _proposer(model)
    targets: dict[int, Target] = {}
    for key in range(25):
        if key % 3 == 0:
            prompt = rng.integers(VOCAB, size=int(rng.integers(1, 30))).tolist()
            targets[key] = Target(other, _greedy(), prompt)
        for own in [k for k in targets if rng.random() < 0.1]:
            del targets[own]
            proposer.forget(own)
        for target in targets.values():
            if rng.random() < 0.3:  # others than the model's own, and set back
                keep = int(rng.integers(1, len(target.tokens) + 1))
                target.tokens[keep:] = rng.integers(VOCAB, size=int(rng.integers(0, 3))).tolist()
                target.num_prompt = min(target.num_prompt, keep)
        asked = {k: t for k, t in targets.items() if rng.random() < 0.8}
        for own, draft in _turn(proposer, asked, int(rng.integers(1, 6))).items():
            target = targets[own]
            assert draft is not None
            wanted = _plain(model, _greedy(), target.tokens, len(draft.tokens))
            assert list(draft.tokens) == wanted[len(target.tokens) :]
            target.tokens += draft.tokens[: int(rng.integers(len(draft.tokens) + 1))]
            target.tokens.append(int(rng.integers(VOCAB)))
    proposer.close()


def test_each_sequence_gets_as_many_tokens_as_it_asks_for_in_as_few_steps_as_there_can_be():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    targets = {k: Target(model, _greedy(), [k + 1, 2, 3]) for k in range(4)}
    wanted = [t.wanted(k, k + 1) for k, t in targets.items()]
    drafts = proposer.propose(wanted)
    assert [len(draft.tokens) for draft in drafts] == [1, 2, 3, 4]
    assert model.num_steps == 4
    assert [step.num_seqs for step in model.steps] == [4, 3, 2, 1]
    proposer.close()


def test_drafts_are_drawn_from_what_they_say_they_are_drawn_from():
    from chi_square import chi_square_deviation

    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    prompt = [3, 1, 4, 1, 5]
    counts, count = np.zeros(VOCAB), 4000
    shares = None
    for at in range(count):
        target = Target(model, _sampled(at, top_k=9, repetition_penalty=1.3), list(prompt))
        draft = proposer.propose([target.wanted(at, 1)])[0]
        proposer.forget(at)
        assert draft is not None and draft.distributions is not None
        ids, own = draft.distributions[0]
        dense = np.zeros(VOCAB)
        dense[ids] = own
        assert shares is None or np.array_equal(shares, dense)
        shares = dense
        counts[draft.tokens[0]] += 1
    assert np.count_nonzero(shares) == 9
    assert chi_square_deviation(counts, shares * count) < 3.7
    proposer.close()


def test_drafts_follow_penalties_and_bans_along_their_own_tokens():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    options = _greedy(no_repeat_ngram_size=1, forced_tokens={2: 7}, logit_bias={5: -np.inf})
    target = Target(model, options, [1, 2, 3])
    draft = proposer.propose([target.wanted(0, 8)])[0]
    assert draft is not None and draft.distributions is None
    wanted = _plain(model, options, [1, 2, 3], 8)[3:]
    assert list(draft.tokens) == wanted
    assert wanted[2] == 7
    proposer.close()


def test_drafts_are_what_a_grammar_lets_follow_and_leave_its_state_alone():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model, eos_ids=[31])
    target = Target(model, _sampled(3), [1, 2])
    answers = [[5, 6, 7], [5, 6, 8, 9], [5, 10]]
    state = ListCompiler(VOCAB, [31]).compile(lists(*answers)).new_state()
    for _ in range(2):
        wanted = replace(target.wanted(0, 8), mask_source=state)
        draft = proposer.propose([wanted])[0]
        assert draft.tokens[-1] == 31
        assert [*target.tokens[2:], *draft.tokens[:-1]] in answers
        assert state.num_tokens == 0
        target.tokens.append(5)
    target.tokens.append(11)  # what the grammar does not let follow
    wanted = replace(target.wanted(0, 8), mask_source=state)
    assert proposer.propose([wanted])[0] is None
    proposer.close()


def test_random_numbers_of_guesses_are_not_those_of_plain_draws():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    same = 0
    for seed in range(200):
        target = Target(model, _sampled(seed), [1, 2, 3])
        draft = proposer.propose([target.wanted(seed, 1)])[0]
        same += draft.tokens[0] == target.next_token()[0]
    shares = draft.distributions[0][1]
    chance = float((shares**2).sum()) * 200
    assert same < chance + 5 * np.sqrt(chance)
    proposer.close()


def test_a_sequence_that_chooses_by_itself_gets_the_best_tokens():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    target = Target(model, _sampled(4), [1, 2])
    target.sampler = object()
    draft = proposer.propose([target.wanted(0, 4)])[0]
    assert draft is not None and draft.distributions is None
    assert list(draft.tokens) == _plain(model, _greedy(), [1, 2], 4)[2:]
    proposer.close()


def test_long_prompts_are_caught_up_with_over_several_turns_while_others_guess():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(
        model, options=DraftModelOptions(catch_up_tokens=10, cache_tokens=4096, min_confidence=0.0)
    )
    short = Target(model, _greedy(), [1, 2])
    long = Target(model, _greedy(), [3] * 45)
    longer = Target(model, _greedy(), [4] * 200)
    told = []
    for _ in range(7):
        before = model.num_tokens
        drafts = _turn(proposer, {0: short, 1: long, 2: longer}, 3)
        assert model.num_tokens - before <= 10 + 2 * 2 + 3 * 3
        told.append([drafts[0] is not None, drafts[1] is not None, drafts[2] is not None])
        for key, target in ((0, short), (1, long)):
            target.check(drafts[key])
    assert [own[0] for own in told] == [True] * 7
    assert told[0][1] is False and told[-1][1] is True
    assert not any(own[2] for own in told)
    proposer.close()


def test_beginnings_are_shared_by_sequences_of_one_salt_only():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    computed = []
    for key, salt in enumerate(["a", "a", "b", None, "b"]):
        before = model.num_tokens
        wanted = replace(Target(model, _greedy(), [7] * 21).wanted(key, 1), extra=salt)
        assert proposer.propose([wanted])[0] is not None
        computed.append(model.num_tokens - before)
    assert computed == [21, 1, 21, 21, 1]
    proposer.close()


@pytest.mark.parametrize("kind", ["paged", "slots"])
def test_sequences_without_room_go_without_drafts_until_others_end(kind):
    model = FakeBackend(VOCAB, **KINDS[kind], max_context=8)
    fit = 3
    proposer = _proposer(model, options=DraftModelOptions(cache_tokens=fit * 8, min_confidence=0.0))
    targets = {k: Target(model, _greedy(), [k, 1, 2, 3, 4, 5]) for k in range(fit + 2)}

    def told(keys):
        drafts = _turn(proposer, {k: targets[k] for k in keys}, 2)
        return [key for key, draft in drafts.items() if draft is not None]

    assert told(targets) == [0, 1, 2]
    assert told(targets) == [0, 1, 2]
    proposer.forget(1)
    assert told([0, 2, 3, 4]) == [0, 2, 3]
    # those that are not asked for give way
    assert told([4, 1, 3]) == [4, 1, 3]
    assert told([0, 4]) == [0, 4]
    proposer.close()


@pytest.mark.parametrize("kind", ["paged", "recurrent"])
def test_a_step_that_fails_leaves_everything_as_it_was(kind):
    model = FakeBackend(VOCAB, **KINDS[kind], max_context=64, fail_steps=[0, 3, 5])
    proposer = _proposer(model)
    targets = {k: Target(model, _greedy(), [k, 2, 3]) for k in range(3)}
    failures = 0
    for _ in range(8):
        try:
            drafts = _turn(proposer, targets, 3)
        except BackendError:
            proposer.check_integrity()
            failures += 1
            continue
        for key, target in targets.items():
            assert target.check(drafts[key]) == 3
    assert failures == 3
    proposer.close()


def test_nothing_is_guessed_behind_an_end_token_and_beyond_the_context():
    prompt = (1, 2, 3)
    model = FakeBackend(VOCAB, continuations={prompt: (4, 5, 0, 6)}, block_size=4, max_context=6)
    proposer = _proposer(model, eos_ids=[0])
    draft = proposer.propose([Target(model, _greedy(), list(prompt)).wanted(0, 9)])[0]
    assert draft.tokens == (4, 5, 0)
    draft = proposer.propose([Target(model, _greedy(), [7] * 5).wanted(1, 9)])[0]
    assert len(draft.tokens) == 2  # the second one needs no room
    draft = proposer.propose([Target(model, _greedy(), [7] * 7).wanted(2, 9)])[0]
    assert draft is None
    proposer.close()


def test_unsure_guesses_are_left_out_where_nothing_is_drawn():
    prompt = (1, 2, 3)
    model = FakeBackend(VOCAB, continuations={prompt: (4, 5)}, block_size=4)
    proposer = _proposer(model, options=DraftModelOptions(min_confidence=0.9, cache_tokens=4096))
    assert proposer.propose([Target(model, _greedy(), list(prompt)).wanted(0, 9)])[0].tokens == (4, 5)
    assert proposer.propose([Target(model, _greedy(), [9, 9]).wanted(1, 9)])[0] is None
    drawn = proposer.propose([Target(model, _sampled(1), [9, 9]).wanted(2, 9)])[0]
    assert len(drawn.tokens) == 9
    proposer.close()


@pytest.mark.parametrize(("own", "wanted"), [(VOCAB + 8, VOCAB), (VOCAB, VOCAB + 8)])
def test_ids_that_only_one_model_has_are_never_guessed(own, wanted):
    model = FakeBackend(own, block_size=4)
    proposer = _proposer(model, vocab_size=wanted)
    few = min(own, wanted)
    for key in range(20):
        target = Target(FakeBackend(wanted), _sampled(key), [1, key])
        draft = proposer.propose([target.wanted(key, 3)])[0]
        assert max(draft.tokens) < few
        assert all(ids.max() < few for ids, _ in draft.distributions)
        target.check(draft)
    if own < wanted:
        target = Target(FakeBackend(wanted), _greedy(), [1, own + 1, 2])
        assert proposer.propose([target.wanted(99, 3)])[0] is None
    proposer.close()


def test_a_closed_proposer_says_so_and_closing_twice_is_harmless():
    model = FakeBackend(VOCAB, block_size=4)
    proposer = _proposer(model)
    target = Target(model, _greedy(), [1])
    proposer.propose([target.wanted(0, 2)])
    proposer.forget(7)
    proposer.close()
    proposer.close()
    proposer.forget(0)
    with pytest.raises(StateError, match="closed"):
        proposer.propose([target.wanted(0, 2)])


@pytest.mark.parametrize(
    "options",
    [
        {"cache_mb": 0},
        {"cache_tokens": 10, "cache_mb": 1},
        {"catch_up_tokens": True},
        {"min_confidence": 1.5},
        {"min_confidence": "0"},
    ],
)
def test_options_out_of_range_are_refused_by_name(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        DraftModelOptions(**options)
