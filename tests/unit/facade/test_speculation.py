"""Generators that guess tokens ahead say what others say, whatever is done to them, and count it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from onnxgen.errors import BackendError, CapabilityError, GrammarError, OptionError
from onnxgen.facade.generator import Generator
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from repeating_backend import RepeatingBackend
from tiny_model_folder import CONTEXT, open_model, write_model_folder
from tiny_tokenizer import EOS, VOCAB_SIZE

FORMS = [{}, {"block_size": 4}, {"rewind": False}]
GRAMMARS = [
    ("regex", "(ab|ba|ac)+d?"),
    ("json_schema", '{"type": "array", "items": {"enum": ["one", "two"]}, "maxItems": 4}'),
    ("lark_grammar", 'start: ("the thing is " ("red" | "blue") "; ")+ "end"'),
    ("choice", '["the one", "the other", "none"]'),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_folder(tmp_path_factory.mktemp("model") / "model")


def backend(**options: Any) -> RepeatingBackend:
    return RepeatingBackend(VOCAB_SIZE, **{"max_context": CONTEXT, "hidden_size": 3, **options})


def open_generator(
    model: Model, *, guidance: Any = None, speculative: Any = None, **search: Any
) -> Generator:
    params = GeneratorParams(model)
    params.set_search_options(**{"max_length": 60, **search})
    if guidance is not None:
        params.set_guidance(*guidance)
    if speculative is not None:
        params.set_speculative_options(**speculative)
    return Generator(model, params)


def finish(g: Generator, most: int = 200) -> list[int]:
    while not g.is_done() and most:
        g.generate_next_token()
        most -= 1
    return g.get_sequence(0).tolist()


def check_counts(stats: Any) -> None:
    assert stats["rounds"] == sum(stats[f"{kind}_rounds"] for kind in ("completed", "interrupted", "active"))
    assert stats["tokens_queued"] == sum(
        stats[f"tokens_{kind}"] for kind in ("emitted", "discarded", "buffered")
    )
    accepted, evaluated, proposed = (
        stats[f"draft_tokens_{k}"] for k in ("accepted", "evaluated", "proposed")
    )
    assert accepted <= evaluated <= proposed
    passes = sum(stats[f"target_{kind}_forward_passes"] for kind in ("verify", "reanchor", "reconciliation"))
    assert stats["target_forward_passes"] == passes
    kinds = sum(stats[f"{kind}_accept_rounds"] for kind in ("full", "partial", "zero"))
    assert kinds <= stats["completed_rounds"] == sum(stats["acceptance_length_histogram"])
    assert stats["ngram_chained_tokens_proposed"] <= stats["ngram_lookup_tokens_proposed"] <= proposed
    assert 0 <= stats["acceptance_rate"] <= 1


def random_search(rng: Any) -> dict[str, Any]:
    search: dict[str, Any] = {"max_length": int(rng.integers(12, 70))}
    if rng.random() < 0.6:
        search |= {
            "do_sample": True,
            "temperature": float(rng.choice([0.4, 1.0, 3.0])),
            "top_k": int(rng.choice([0, 2, 30])),
            "top_p": float(rng.choice([0.0, 0.8, 1.0])),
            "random_seed": int(rng.integers(1000)),
        }
    if rng.random() < 0.3:
        search["repetition_penalty"] = float(rng.choice([0.8, 1.2]))
    if rng.random() < 0.3:
        search["min_length"] = int(rng.integers(20))
    if rng.random() < 0.2:
        search["no_repeat_ngram_size"] = int(rng.integers(2, 6))
    return search


def random_speculation(rng: Any) -> dict[str, Any]:
    return {
        "ngram_size": int(rng.choice([2, 2, 2, 3, 4])),
        "max_draft_tokens": int(rng.integers(1, 9)),
        "ngram_chained_lookup": bool(rng.integers(2)),
        "min_adaptive_k": int(rng.choice([0, 0, 1, 2])),
        "cooldown": bool(rng.integers(2)),
    }


class Pair:
    """A generator that guesses and one that does not, driven alike."""

    def __init__(self, generators: list[Generator]) -> None:
        self.generators = generators

    def call(self, name: str, *arguments: Any) -> Any:
        guessing, plain = (self._outcome(g, name, arguments) for g in self.generators)
        assert guessing == plain, f"{name}{arguments}"
        check_counts(self.generators[0].get_speculative_stats())
        return guessing

    def _outcome(self, g: Generator, name: str, arguments: Any) -> Any:
        try:
            value = getattr(g, name)(*arguments)
        except (GrammarError, OptionError) as error:
            return type(error)
        return value.tobytes() if isinstance(value, np.ndarray) else value

    def fork(self) -> Pair:
        return Pair([g.fork() for g in self.generators])


def walk(pair: Pair, rng: Any, *, rewinds: bool = True) -> None:
    generator = pair.generators[0]
    pair.call("append_tokens", rng.integers(3, 9, int(rng.integers(1, 8))).tolist())
    for _ in range(int(rng.integers(10, 60))):
        length = pair.call("token_count")
        done = pair.call("is_done")
        pair.call("get_sequence", 0)
        choice = rng.random()
        if choice < 0.7 and not done:
            pair.call("generate_next_token")
            pair.call("get_next_tokens")
        elif choice < 0.76:
            room = generator._max_length - length
            if room > 1:
                pair.call("append_tokens", rng.integers(3, 9, int(rng.integers(1, min(room, 4)))).tolist())
        elif choice < 0.82 and rewinds:
            back = int(rng.integers(1, length + 1))
            pair.call("rewind_to", back)
        elif choice < 0.86 and not done:
            pair.call("set_logits", rng.normal(size=VOCAB_SIZE).astype(np.float32))
        elif choice < 0.90 and not done:
            pair.call("get_logits")
        elif choice < 0.93 and not done and length:
            pair.call("get_output", str(rng.choice(["logits", "hidden_states"])))
        elif choice < 0.95 and not done:
            pair.call("snapshot_state")
        elif choice < 0.98:
            pair = pair.fork()
            generator = pair.generators[0]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_whatever_is_done_guessing_changes_no_token(folder, form):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(25):
        sharpness = float(rng.choice([4.0, 8.0, 20.0]))
        model = open_model(folder, backend(salt=int(rng.integers(100)), sharpness=sharpness, **form))
        search = random_search(rng)
        generators = [
            open_generator(model, speculative=random_speculation(rng), **search),
            open_generator(model, **search),
        ]
        walk(Pair(generators), rng)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_whatever_is_done_guessing_changes_no_token_of_a_grammar(folder, form):
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    rng = np.random.default_rng(seed)
    for _ in range(8):
        model = open_model(folder, backend(salt=int(rng.integers(100)), sharpness=0.0, **form))
        search = random_search(rng)
        guidance = GRAMMARS[int(rng.integers(len(GRAMMARS)))]
        generators = [
            open_generator(model, speculative=random_speculation(rng), guidance=guidance, **search),
            open_generator(model, guidance=guidance, **search),
        ]
        walk(Pair(generators), rng)


@pytest.mark.parametrize("guidance", GRAMMARS, ids=[kind for kind, _ in GRAMMARS])
@pytest.mark.parametrize("search", [{}, {"do_sample": True, "random_seed": 3, "top_k": 40}], ids=str)
def test_forced_tokens_cost_no_run_of_their_own(folder, guidance, search):
    own = backend(sharpness=0.0)
    model = open_model(folder, own)
    answers, runs = [], []
    narrow, wide = ({"ngram_size": 2, "max_draft_tokens": width} for width in (2, 8))
    for speculative in (None, narrow, wide):
        before = len(own.steps)
        g = open_generator(
            model, guidance=(*guidance, True), speculative=speculative, max_length=100, **search
        )
        g.append_tokens([5, 6])
        answers.append(finish(g))
        runs.append(len(own.steps) - before)
    assert answers[0] == answers[1] == answers[2]
    if not search:
        before = len(own.steps)
        g = open_generator(model, guidance=guidance, max_length=100)
        g.append_tokens([5, 6])
        assert finish(g) == answers[0]
        assert max(runs) <= len(own.steps) - before
        if guidance[0] in ("lark_grammar", "choice"):
            assert max(runs) < len(own.steps) - before


def test_forced_tokens_are_appended_before_the_token_that_follows(folder):
    model = open_model(folder, backend(sharpness=0.0))
    g = open_generator(model, guidance=("lark_grammar", 'start: "in the " ("x" | "y")', True))
    g.append_tokens([5, 6])
    g.generate_next_token()
    text = g.get_sequence(0)[2:].tolist()
    assert len(text) > 2
    assert g.get_next_tokens().tolist() == text[-1:]
    assert g.get_output("logits").shape == (1, len(text) - 1, VOCAB_SIZE)
    assert g.get_input("input_ids").tolist() == [text[:-1]]
    g.generate_next_token()
    assert g.is_done()
    g.rewind_to(len(text))
    g.generate_next_token()
    assert g.get_sequence(0)[2:].tolist() == text


def test_forced_tokens_end_where_max_length_is(folder):
    model = open_model(folder, backend(sharpness=0.0))
    for speculative in (None, {"ngram_size": 2}):
        g = open_generator(
            model, guidance=("choice", '["in the other thing"]', True), speculative=speculative, max_length=5
        )
        g.append_tokens([5, 6])
        assert len(finish(g)) == 5
        assert g.is_done()


def test_a_step_that_fails_changes_nothing(folder):
    own = backend(sharpness=20.0)
    model = open_model(folder, own)
    plain = open_generator(model, do_sample=True, random_seed=4, top_k=5)
    guessing = open_generator(model, do_sample=True, random_seed=4, top_k=5, speculative={"ngram_size": 2})
    prompt = [3, 4, 5, 6, 7, 8] * 3
    for g in (plain, guessing):
        g.append_tokens(prompt)
    execute = own.execute
    for step in range(30):
        plain.generate_next_token()
        if step % 3 == 0:

            def fail(*_: Any) -> Any:
                raise BackendError("no luck")

            own.execute = fail
            before = guessing.get_sequence(0).tolist()
            try:
                guessing.generate_next_token()
            except BackendError:
                assert guessing.get_sequence(0).tolist() == before
                own.execute = execute
                guessing.generate_next_token()
            own.execute = execute
        else:
            guessing.generate_next_token()
        assert guessing.get_sequence(0).tolist() == plain.get_sequence(0).tolist()
    assert guessing.get_speculative_stats()["draft_tokens_accepted"] > 5


def test_a_second_answer_begins_the_grammar_anew_and_a_rewind_goes_back_into_the_first(folder):
    model = open_model(folder, backend(sharpness=0.0))
    g = open_generator(model, guidance=("regex", "[xyz]{3}"))
    g.append_tokens([5, 6])
    first = finish(g)
    assert len(first) == 5
    g.append_tokens([7])
    second = finish(g)
    assert len(second) == 9
    letters = set(second[2:5] + second[6:])
    assert len(letters) <= 3
    g.rewind_to(7)
    assert finish(g) == second
    g.rewind_to(3)
    assert finish(g) == first
    g.append_tokens([7])
    assert finish(g) == second


def test_every_row_follows_a_grammar_of_its_own(folder):
    model = open_model(folder, backend(sharpness=0.0))
    g = open_generator(model, guidance=("regex", "(ab){1,3}|c"), batch_size=3, max_length=20)
    g.append_tokens([[5, 6], [7, 8], [9, 10]])
    while not g.is_done():
        g.generate_next_token()
    alone = []
    for prompt in ([5, 6], [7, 8], [9, 10]):
        one = open_generator(model, guidance=("regex", "(ab){1,3}|c"), max_length=20)
        one.append_tokens(prompt)
        alone.append(finish(one))
    for row, want in enumerate(alone):
        assert g.get_sequence(row).tolist()[: len(want)] == want
        assert all(token in (EOS, 0) for token in g.get_sequence(row).tolist()[len(want) :])


def test_the_grammar_goes_before_other_bans(folder):
    model = open_model(folder, backend(sharpness=0.0))
    g = open_generator(model, guidance=("regex", "a{4}"), min_length=50, no_repeat_ngram_size=1)
    g.append_tokens([5, 6])
    assert len(finish(g)) == 6


@pytest.mark.parametrize(
    ("search", "speculative", "error", "message"),
    [
        ({"batch_size": 2}, {"ngram_size": 2}, CapabilityError, "batch_size=2"),
        ({"num_beams": 2}, {"ngram_size": 2}, CapabilityError, "beam search"),
        (
            {"num_beams": 2, "num_return_sequences": 2},
            {"ngram_size": 2},
            CapabilityError,
            "num_return_sequences",
        ),
        ({}, {"ngram_chained_lookup": True}, OptionError, "requires ngram_size"),
    ],
)
def test_what_cannot_be_guessed_for_is_refused(folder, search, speculative, error, message):
    with pytest.raises(error, match=message):
        open_generator(open_model(folder, backend()), speculative=speculative, **search)


def test_grammars_are_refused_when_the_generator_is_made(folder):
    model = open_model(folder, backend())
    with pytest.raises(GrammarError, match="regex"):
        open_generator(model, guidance=("regex", "("))
    with pytest.raises(OptionError, match="num_beams=2"):
        open_generator(model, guidance=("regex", "a"), num_beams=2)


def test_without_guesses_all_is_zero(folder):
    g = open_generator(open_model(folder, backend()))
    g.append_tokens([5])
    finish(g)
    stats = g.get_speculative_stats()
    assert len(stats) == 61
    assert not any(value for name, value in stats.items() if name != "acceptance_length_histogram")
    assert stats["acceptance_length_histogram"] == [0] * 8


def test_the_formula_is_what_the_counts_say(folder):
    g = open_generator(
        open_model(folder, backend(sharpness=20.0)), speculative={"ngram_size": 2, "max_draft_tokens": 3}
    )
    g.append_tokens([200])
    finish(g)
    s = g.get_speculative_stats()
    a, widths = s["acceptance_rate"], s["draft_tokens_proposed"] / s["rounds"]
    assert s["formula_supported"] is True
    assert s["avg_draft_tokens_per_round"] == widths
    assert 1 <= s["expected_tokens_per_round"] <= 4
    assert s["mean_emitted_tokens_per_round"] == s["tokens_emitted"] / s["rounds"]
    assert s["target_reanchor_forward_passes"] == s["standard_fallback_steps"] - 1 > 0
    baseline = s["target_baseline_ms_per_token"]
    assert baseline == s["total_target_reanchor_ms"] / s["target_reanchor_forward_passes"]
    cost = s["avg_target_ms_per_round"] / baseline + widths * s["avg_draft_ms_per_token"] / baseline
    assert s["observed_speedup"] == pytest.approx(s["mean_emitted_tokens_per_round"] / cost)
    assert s["estimated_speedup"] == pytest.approx(s["expected_tokens_per_round"] / cost)
    assert 0 < a <= 1


class TestDraftModel:
    """A smaller model guesses."""

    def open(self, folder: Any, target: Any, draft: Any) -> Model:
        model = open_model(folder, target)
        return Model(folder, runtime=model.runtime, backend=target, draft=draft)

    @pytest.mark.parametrize("form", FORMS, ids=str)
    def test_the_best_tokens_are_the_models_own(self, folder, form):
        seed = int(np.random.SeedSequence().generate_state(1)[0])
        print("seed", seed)
        rng = np.random.default_rng(seed)
        for _ in range(12):
            target = backend(sharpness=8.0, salt=1, **form)
            draft = backend(sharpness=6.0, salt=int(rng.integers(1, 3)), **form)
            search = {**random_search(rng), "do_sample": False}
            options = {k: v for k, v in random_speculation(rng).items() if "ngram" not in k}
            guidance = GRAMMARS[int(rng.integers(len(GRAMMARS)))] if rng.random() < 0.4 else None
            generators = [
                open_generator(
                    self.open(folder, target, draft), speculative=options, guidance=guidance, **search
                ),
                open_generator(open_model(folder, target), guidance=guidance, **search),
            ]
            walk(Pair(generators), rng)

    @pytest.mark.parametrize("seed", [-1, 7])
    def test_a_draft_that_is_the_model_is_right(self, folder, seed):
        own = backend(sharpness=3.0)
        model = self.open(folder, own, own)
        g = open_generator(model, do_sample=True, top_k=0, top_p=1.0, random_seed=seed, max_length=100)
        g.append_tokens([5, 6])
        finish(g)
        stats = g.get_speculative_stats()
        assert stats["acceptance_rate"] == 1.0
        assert stats["draft_forward_passes"] == stats["draft_tokens_proposed"] > 0
        assert stats["ngram_lookup_hits"] == 0

    def test_drawn_tokens_are_distributed_as_the_models_own(self, folder):
        target, draft = backend(sharpness=1.0, salt=1), backend(sharpness=1.0, salt=2)
        model = self.open(folder, target, draft)
        search = {"do_sample": True, "top_k": 4, "temperature": 1.5, "max_length": 4}
        seen: Counter[tuple[int, int]] = Counter()
        runs = 800
        for run in range(runs):
            g = open_generator(model, speculative={"max_draft_tokens": 2}, random_seed=run, **search)
            g.append_tokens([5, 6])
            seen[tuple(finish(g)[2:])] += 1
            g.close()
        chi_square, places = 0.0, 0
        for first, share in top_shares(target.logits_after([5, 6])):
            for second, then in top_shares(target.logits_after([5, 6, first])):
                expected = runs * share * then
                if EOS in (first, second):
                    continue
                chi_square += (seen[first, second] - expected) ** 2 / expected
                places += 1
        assert places > 8
        assert chi_square < 45  # of 15 degrees of freedom, 1 run in 10,000 has more

    def test_a_draft_of_another_vocabulary_is_refused_with_both_sizes(self, folder):
        with pytest.raises(OptionError, match=rf"{VOCAB_SIZE + 1} tokens, the model of {VOCAB_SIZE}"):
            self.open(folder, backend(), RepeatingBackend(VOCAB_SIZE + 1, max_context=CONTEXT))

    def test_ngrams_and_a_draft_are_not_combined(self, folder):
        model = self.open(folder, backend(), backend())
        with pytest.raises(OptionError, match="cannot be combined with draft-model"):
            open_generator(model, speculative={"ngram_size": 3})


def top_shares(logits: Any, top_k: int = 4, temperature: float = 1.5) -> list[tuple[int, float]]:
    best = np.argsort(-logits)[:top_k]
    weights = np.exp((logits[best].astype(np.float64) - logits.max()) / temperature)
    return list(zip(best.tolist(), weights / weights.sum(), strict=True))
