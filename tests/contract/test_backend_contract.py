"""What every backend promises, run over all of them."""

import dataclasses
import secrets
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backend_cases import CASE_NAMES, CONTEXT, Case, Runner, make_case
from onnxgen.backends.base import BlockCopy, SequenceInput, pack_step
from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.errors import BackendError, CapabilityError, OnnxgenError, StateError, StepError, TokenIdError

SEED = secrets.randbits(32)


@pytest.fixture(scope="module", params=CASE_NAMES)
def case(request, tmp_path_factory):
    print(f"seed {SEED}")  # shown when a test fails
    folder = tmp_path_factory.mktemp("modèle tiny")
    made = make_case(request.param, folder, SEED)
    yield made
    made.backend.close()


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


@pytest.fixture
def tokens(rng):
    return lambda n: rng.integers(0, 61, n).tolist()


def needs(condition, what):
    if not condition:
        pytest.skip(f"this backend does not offer {what}")


def test_one_prompt_gives_the_logits_of_every_token(case, tokens):
    Runner(case, num_seqs=1, num_tokens=CONTEXT).step({"a": tokens(13)}, logits="all")


def test_sequences_of_different_lengths_in_one_step_are_as_alone(case, tokens):
    run = Runner(case, num_seqs=4, num_tokens=CONTEXT)
    run.step({"a": tokens(9), "b": tokens(1), "c": tokens(17), "d": tokens(4)}, logits="all")
    for _ in range(3):
        run.step({n: tokens(1) for n in "dbca"})


def test_chunked_prefill_gives_the_same_logits_as_one_piece(case, tokens):
    run, prompt = Runner(case, num_seqs=1, num_tokens=CONTEXT), tokens(23)
    for start, end in ((0, 7), (7, 8), (8, 20), (20, 23)):
        run.step({"a": prompt[start:end]}, logits="all")


def test_prefill_chunk_decode_and_idle_sequences_share_a_step(case, tokens):
    run = Runner(case, num_seqs=5, num_tokens=CONTEXT)
    run.step({n: tokens(k) for n, k in (("a", 3), ("idle", 11), ("b", 20), ("c", 2))})
    run.step({"new": tokens(6), "b": tokens(1), "a": tokens(5), "c": tokens(1)}, logits="all")
    run.step({"idle": tokens(1), "a": tokens(1)})


def test_a_long_chunk_meets_a_nearly_full_sequence(case, tokens):
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    run.step({"full": tokens(CONTEXT - 3), "short": tokens(1)})
    run.step({"full": tokens(1), "new": tokens(CONTEXT), "short": tokens(2)}, logits="all")
    run.step({"short": tokens(30), "full": tokens(2)}, logits="all")


def test_a_rewound_sequence_goes_on_like_a_fresh_one(case, tokens):
    needs(case.backend.capabilities.rewind, "rewind")
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    run.step({"a": tokens(12), "b": tokens(3)})
    run.rewind("a", 5)
    run.step({"a": tokens(4), "b": tokens(2)}, logits="all")
    run.rewind("a", 8)
    run.step({"a": tokens(1), "b": tokens(1)})


def test_a_sequence_starts_again_from_nothing(case, tokens):
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    run.step({"a": tokens(12), "b": tokens(3)})
    run.rewind("a", 0)
    run.step({"a": tokens(4), "b": tokens(2)}, logits="all")


def test_without_rewind_only_the_whole_length_or_nothing_goes_on(case, tokens):
    needs(not case.backend.capabilities.rewind, "the lack of rewind")
    run = Runner(case, num_seqs=1, num_tokens=CONTEXT)
    run.step({"a": tokens(6)})
    run.rewind("a", 4)
    with pytest.raises(StepError, match="holds 6 tokens and cannot go back to 4"):
        run.step({"a": tokens(1)})


def test_only_the_rows_asked_for_come_back_in_order(case, tokens):
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    kinds = {"a": "none", "b": "all", "c": "last"}
    run.step({"a": tokens(5), "b": tokens(4), "c": tokens(6)}, logits=kinds)
    output = run.step({"a": tokens(2), "b": tokens(1)}, logits="none")
    assert output.logits.shape == (0, case.backend.vocab_size)
    run.step({"a": tokens(1), "b": tokens(1), "c": tokens(1)}, logits={"a": "last", "b": "none", "c": "last"})


def test_any_rows_may_be_asked_for(case, rng, tokens):
    run, prompts = Runner(case, num_seqs=2, num_tokens=CONTEXT), [tokens(7), tokens(9)]
    step = pack_step([run.part(n, p) for n, p in zip("ab", prompts, strict=True)])
    rows = np.sort(rng.choice(16, 6, replace=False))
    object.__setattr__(step, "logits_rows", rows.astype(np.int64))
    logits = case.backend.execute(step, run.cache).logits
    for got, row in zip(logits, rows.tolist(), strict=True):
        prompt, at = (prompts[0], row) if row < 7 else (prompts[1], row - 7)
        case.check(got[None], prompt, [at], f"row {row}")


def test_logits_belong_to_the_caller(case, tokens):
    run = Runner(case, num_seqs=1, num_tokens=CONTEXT)
    first = run.step({"a": tokens(3)}).logits
    kept = first.copy()
    for _ in range(3):
        run.step({"a": tokens(1)})
    assert np.array_equal(first, kept)


def test_a_forked_sequence_goes_its_own_way(case, tokens):
    needs(case.backend.capabilities.copy_blocks, "copies")
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    run.step({"a": tokens(10), "other": tokens(4)})
    length = 9 if case.backend.capabilities.rewind else 10
    run.tokens["fork"] = run.tokens["a"][:length]
    run.grow("fork", length)
    size = run.block_size
    copies = [
        BlockCopy(source, target, min(size, length - i * size))
        for i, (source, target) in enumerate(zip(run.blocks["a"], run.blocks["fork"], strict=False))
    ]
    run.step({"fork": tokens(3), "a": tokens(2)}, logits="all", copies=copies)
    for _ in range(2):
        run.step({"a": tokens(1), "other": tokens(1), "fork": tokens(1)})


def test_a_part_of_a_recurrent_state_is_not_copied(case, tokens):
    needs(not case.backend.capabilities.rewind, "the lack of rewind")
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    run.step({"a": tokens(10)})
    (source,), (target,) = run.blocks["a"], run.grow("fork", 9)
    for count in (9, 11):
        step = pack_step([run.part("a", tokens(1))], copies=[BlockCopy(source, target, count)])
        with pytest.raises(StepError, match=f"{count}.*10|10.*{count}"):
            case.backend.execute(step, run.cache)
    run.step({"a": tokens(2)}, logits="all")


def test_full_blocks_may_be_shared(case, tokens):
    needs(case.backend.capabilities.paged, "shared blocks")
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    shared = 2 * run.block_size
    needs(shared + 5 <= CONTEXT, "blocks that are short beside the context")
    run.step({"a": tokens(shared + 2)})
    run.tokens["b"], run.blocks["b"] = run.tokens["a"][:shared], run.blocks["a"][:2]
    run.step({"b": tokens(3), "a": tokens(2)}, logits="all")


def test_the_capacity_can_be_filled_exactly_and_not_beyond(case, tokens):
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    run.step({"a": tokens(CONTEXT), "b": tokens(CONTEXT - 1)})
    run.step({"b": tokens(1)})
    blocks = run.blocks["b"]
    step = pack_step([SequenceInput(tokens(1), CONTEXT, blocks)])
    with pytest.raises(StepError, match=f"{CONTEXT + 1} tokens"):
        case.backend.execute(step, run.cache)


def test_a_small_cache_says_what_it_holds(case, tokens):
    run = Runner(case, num_seqs=1, num_tokens=8)
    assert run.cache.geometry.num_blocks * run.block_size == 8
    run.step({"a": tokens(8)})
    step = pack_step([SequenceInput(tokens(1), 8, run.blocks["a"])])
    with pytest.raises(StepError, match="needs room for 9 tokens"):
        case.backend.execute(step, run.cache)


def test_a_cache_longer_than_the_context_is_refused(case):
    with pytest.raises(CapabilityError, match=f"{CONTEXT + 1} tokens.* {CONTEXT}"):
        case.backend.create_cache(num_seqs=1, num_tokens=CONTEXT + 1)


def test_bad_steps_are_refused_and_change_nothing(case, tokens):
    run = Runner(case, num_seqs=3, num_tokens=CONTEXT)
    run.step({"a": tokens(6), "b": tokens(3)})
    a, b = run.blocks["a"], run.blocks["b"]
    pool = run.cache.geometry.num_blocks
    spare = run.grow("spare", 4)
    bad = {
        "id too large": (TokenIdError, [SequenceInput([61], 6, a)]),
        "negative id": (TokenIdError, [SequenceInput([-1], 6, a)]),
        "unknown block": (StepError, [SequenceInput([1], 0, [pool])]),
        "no block": (StepError, [SequenceInput([1], 0, [-1])]),
        "block written twice": (StepError, [SequenceInput([1], 0, b), SequenceInput([2], 0, b)]),
        "never written": (StepError, [SequenceInput([1], 3, spare)]),
        "negative length": (StepError, [SequenceInput([1], -1, a)]),
    }
    for what, (error, sequences) in bad.items():
        good = SequenceInput(tokens(1), 3, b) if what != "block written twice" else None
        steps = [pack_step(sequences)] + ([pack_step([good, *sequences])] if good else [])
        for step in steps:
            with pytest.raises(error):
                case.backend.execute(step, run.cache)
    step = pack_step([SequenceInput([1], 6, a)])
    object.__setattr__(step, "logits_rows", np.array([1], np.int64))
    with pytest.raises(StepError, match="logits_rows"):
        case.backend.execute(step, run.cache)
    with pytest.raises(StepError, match="'weather'"):
        case.backend.execute(
            pack_step([SequenceInput([1], 6, a)], inputs={"weather": np.zeros(1)}), run.cache
        )
    run.step({"a": tokens(2), "b": tokens(2)}, logits="all")


def test_a_failed_step_leaves_every_sequence_as_it_was(case, tokens, monkeypatch):
    run = Runner(case, num_seqs=4, num_tokens=CONTEXT)
    run.step({"a": tokens(6), "b": tokens(3), "c": tokens(9)})
    before = {n: list(t) for n, t in run.tokens.items()}
    for failing_call in range(3):
        with monkeypatch.context() as patch:
            fail_at(case.backend, failing_call, patch)
            try:
                run.step({"b": tokens(1), "a": tokens(4), "new": tokens(7), "c": tokens(1)}, check=False)
            except BackendError as error:
                assert not isinstance(error, StepError)
            else:
                assert failing_call > 0, "the first call of a step should have failed"
                for name, length in {n: len(t) for n, t in before.items()}.items():
                    if not case.backend.capabilities.rewind:
                        return  # this one really has moved on
                    run.rewind(name, length)
        run.tokens = {n: list(t) for n, t in before.items()} | {"new": []}
    run.step({"a": tokens(2), "b": tokens(1), "c": tokens(3)}, logits="all")


def fail_at(backend, call, patch):
    """Let the ``call``-th execution of the model from now on fail, after it has done its work."""
    if isinstance(backend, FakeBackend):
        patch.setattr(backend, "_fail_steps", frozenset({backend.num_steps + call}))
        return
    count = [0]

    def failing(real):
        def run(*args, **kwargs):
            result = real(*args, **kwargs)
            count[0] += 1
            if count[0] > call:
                raise RuntimeError("the machine is on fire")
            return result

        return run

    if isinstance(backend, NativeBackend):
        patch.setattr(backend._runner, "_run", failing(backend._runner._run))
        return
    session = backend._plan._session._session
    for method in ("run", "run_with_iobinding"):
        patch.setattr(session, method, failing(getattr(session, method)), raising=True)


def test_two_caches_do_not_know_each_other(case, tokens):
    one, two = (Runner(case, num_seqs=2, num_tokens=n, seed=n) for n in (CONTEXT, 24))
    one.step({"a": tokens(5)})
    two.step({"a": tokens(7), "b": tokens(2)})
    one.step({"a": tokens(1), "b": tokens(4)})
    two.step({"a": tokens(1), "b": tokens(1)})
    assert one.cache.num_bytes > 0
    two.cache.close()
    two.cache.close()
    assert two.cache.num_bytes == 0
    with pytest.raises(StateError, match="cache was closed"):
        two.step({"a": tokens(1)})
    one.step({"a": tokens(1), "b": tokens(1)})


def test_hidden_states_come_with_the_rows_asked_for(case, tokens):
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    assert case.backend.capabilities.hidden_states
    first, second = [7, 3, 9, 1, 5, 2], tokens(3)  # equal tokens would have equal states
    output = run.step({"a": first, "b": second}, logits={"a": "all", "b": "last"}, want_hidden_states=True)
    hidden = output.hidden_states
    assert hidden is not None
    assert hidden.shape[0] == 7
    assert hidden.dtype == np.float32
    kept = hidden.copy()
    assert run.step({"a": tokens(1)}).hidden_states is None
    assert np.array_equal(hidden, kept)
    alone = Runner(case, num_seqs=1, num_tokens=CONTEXT)
    again = alone.step({"b": second}, want_hidden_states=True).hidden_states
    assert np.allclose(hidden[6:], again, atol=1e-3)
    assert not np.allclose(hidden[:1], hidden[1:2], atol=1e-3)


def test_hidden_states_are_what_the_head_multiplies(case, tokens):
    needs(case.hidden is not None, "an oracle of hidden states")
    run, prompts = Runner(case, num_seqs=2, num_tokens=CONTEXT), {"a": tokens(7), "b": tokens(4)}
    hidden = run.step(prompts, logits={"a": "all", "b": "last"}, want_hidden_states=True).hidden_states
    want = np.concatenate([case.hidden(prompts["a"]), case.hidden(prompts["b"])[-1:]])
    assert np.abs(hidden - want).max() <= max(case.tolerance, 1e-4)


def test_hidden_states_can_be_had_without_logits(case, tokens):
    run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
    prompts = {"a": tokens(6), "b": tokens(3)}
    both = run.step(prompts, logits="all", want_hidden_states=True)
    for name in prompts:
        run.rewind(name, 0)
    alone = run.step(prompts, logits="all", want_hidden_states=True, want_logits=False)
    assert alone.logits.shape == (0, case.backend.vocab_size)
    assert np.allclose(alone.hidden_states, both.hidden_states, atol=1e-5)
    neither = run.step({"a": tokens(2)}, want_logits=False)
    assert neither.logits.shape == (0, case.backend.vocab_size)
    assert neither.hidden_states is None
    run.step({"a": tokens(1), "b": tokens(2)}, logits="all")
    for _ in range(3):  # decode steps of one form
        run.step({"a": tokens(1), "b": tokens(1)})


def test_embeddings_stand_for_ids(case, rng, tokens):
    backend, width = case.backend, case.backend.capabilities.embedding_size
    assert width is not None
    rows = backend.token_embeddings(np.arange(61))
    assert (rows.shape, rows.dtype) == ((61, width), np.float32)
    if case.embeddings is not None:
        assert np.allclose(rows, case.embeddings, atol=1e-6)
    with pytest.raises(TokenIdError, match="61"):
        backend.token_embeddings(np.array([3, 61]))
    run = Runner(case, num_seqs=4, num_tokens=CONTEXT)
    words = {"a": tokens(9), "b": tokens(4), "ids": tokens(6)}
    run.step({"a": words["a"], "ids": words["ids"]}, logits="all")
    expected = {n: case.logits(words[n])[-1] for n in words}
    # the ids below the embeddings count for nothing
    parts = {"new": [0] * 9, "c": [5] * 2 + words["b"][2:], "ids": tokens(1)}
    run.tokens["ids"] = words["ids"]
    embeds = {"new": rows[words["a"]], "c": rows[words["b"][:2]]}
    output = run.step(parts, embeds=embeds, check=False)
    tolerance = max(case.tolerance, 1e-4)
    assert np.abs(output.logits[0] - expected["a"]).max() <= tolerance
    assert np.abs(output.logits[1] - expected["b"]).max() <= tolerance
    case.check(output.logits[2:], run.tokens["ids"], [6])
    run.tokens["new"], run.tokens["c"] = (
        words["a"],
        words["b"],
    )  # from here on they are as if computed from ids
    for _ in range(3):
        run.step({n: tokens(1) for n in ("new", "ids", "c", "a")})


def test_other_embeddings_are_other_tokens(case, rng):
    width = case.backend.capabilities.embedding_size
    results = []
    for rows in (rng.standard_normal((5, width)).astype(np.float32), None):
        run = Runner(case, num_seqs=2, num_tokens=CONTEXT)
        run.step({"other": [1, 2, 3]})
        for _ in range(2):  # chunks
            output = run.step(
                {"a": [0] * 5, "other": [4]}, embeds=None if rows is None else {"a": rows}, check=False
            )
        results.append(output.logits[0])
    assert not np.allclose(*results, atol=1e-3)


def test_wrong_embeddings_are_refused(case):
    width = case.backend.capabilities.embedding_size
    run = Runner(case, num_seqs=1, num_tokens=CONTEXT)
    part = run.part("a", [1, 2])
    good, rows = np.zeros((2, width), np.float32), np.arange(2)
    for inputs, message in (
        ({"inputs_embeds": good}, "go together"),
        ({"inputs_embeds": good[:, 1:], "embeds_rows": rows}, "must have a row of"),
        ({"inputs_embeds": good[:1], "embeds_rows": rows}, "must have a row of"),
        ({"inputs_embeds": good.astype(np.float64), "embeds_rows": rows}, "float64"),
        ({"inputs_embeds": good, "embeds_rows": rows[::-1].copy()}, "must increase"),
        ({"inputs_embeds": good, "embeds_rows": rows + 1}, "must increase"),
    ):
        with pytest.raises(StepError, match=message):
            case.backend.execute(pack_step([part], inputs=inputs), run.cache)
    with pytest.raises(StepError, match="3 embeddings for 2 new tokens"):
        pack_step([dataclasses.replace(part, embeds=np.zeros((3, width), np.float32))])
    run.step({"a": [1, 2, 3]}, logits="all")


def test_threads_may_share_a_backend(case, tokens):
    prompts, errors = [tokens(5 + i) for i in range(4)], []

    def work(i):
        try:
            run = Runner(case, num_seqs=1, num_tokens=CONTEXT)
            for start in range(0, len(prompts[i]), 2):
                run.step({"a": prompts[i][start : start + 2]}, logits="all")
        except (OnnxgenError, AssertionError) as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


@st.composite
def schedules(draw):
    """Steps of a few sequences: (sequence, new tokens, rewind to this share of its length first)."""
    names = st.sampled_from("abcd")
    part = st.tuples(
        st.integers(1, 9), st.sampled_from(["none", "last", "all"]), st.floats(0, 1) | st.just(1.0)
    )
    return draw(st.lists(st.dictionaries(names, part, min_size=1), min_size=1, max_size=6))


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=schedules(), seed=st.integers(0, 2**32 - 1))
def test_any_schedule_gives_each_sequence_what_it_would_get_alone(case: Case, steps, seed):
    rng, run = np.random.default_rng(seed), Runner(case, num_seqs=4, num_tokens=CONTEXT, seed=seed)
    for step in steps:
        parts, kinds = {}, {}
        for name, (count, logits, keep) in step.items():
            length = len(run.tokens.get(name, ()))
            if length + count > CONTEXT:
                keep = 0.0
            if keep < 1.0 and name in run.tokens:
                run.rewind(name, int(length * keep) if case.backend.capabilities.rewind else 0)
                if int(length * keep) + count > CONTEXT:
                    run.rewind(name, 0)
            parts[name], kinds[name] = rng.integers(0, 61, count).tolist(), logits
        run.step(parts, logits=kinds)


def test_a_closed_backend_says_so(tmp_path, tokens):
    for name in ("fake-slots", "packed", "dense", "native"):
        made = make_case(name, tmp_path, SEED)
        cache = made.backend.create_cache(num_seqs=1, num_tokens=4)
        made.backend.close()
        made.backend.close()
        with pytest.raises(StateError, match="backend was closed"):
            made.backend.create_cache(num_seqs=1, num_tokens=4)
        with pytest.raises(StateError, match="backend was closed"):
            made.backend.execute(pack_step([SequenceInput(tokens(1), 0, [0])]), cache)


def test_another_backends_cache_is_refused(case, tmp_path):
    other = make_case("packed", tmp_path, SEED).backend
    cache = other.create_cache(num_seqs=1, num_tokens=4)
    with pytest.raises(OnnxgenError, match="another backend"):
        case.backend.execute(pack_step([SequenceInput([1], 0, [0])]), cache)
    other.close()
