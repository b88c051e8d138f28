"""A draft model in an engine: answers are those of the model alone, whatever is guessed."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from chi_square import chi_square_deviation
from list_grammars import ListCompiler, lists
from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.draft_model import DraftModelProposer
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.engine.speculation.options import Speculation
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.graph.cpu.draws import Draw, distribution
from onnxgen.scheduler.config import SchedulerConfig
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model

DRAFTS = Speculation("draft_model", max_draft_tokens=4, adaptive=False)


class Similar(FakeBackend):
    """A model that says nearly what `FakeBackend` says."""

    difference = 0.7

    def _logits_after(self, sequence):
        own = super()._logits_after(sequence)
        return own + self.difference * super()._logits_after(np.append(sequence, 0))


def _run(backend, requests, *, draft=None, eos_ids=(), config=None, options=None, grammars=None, check=True):
    proposers = {}
    if draft is not None:
        options = options or DraftModelOptions(cache_tokens=4096, min_confidence=0.0)
        proposers["draft_model"] = DraftModelProposer(
            draft, vocab_size=backend.vocab_size, options=options, eos_ids=eos_ids
        )
    config = config or EngineConfig(
        cache_tokens=4096, speculation=DRAFTS if draft is not None else Speculation("off")
    )
    core = EngineCore(backend, config, eos_ids=eos_ids, proposers=proposers, grammars=grammars)
    numbers = [core.submit(request) for request in requests]
    found = {number: {} for number in numbers}
    while core.has_work:
        for event in core.step():
            assert event.error is None, event.error
            if event.token_id is not None:
                found[event.request_id].setdefault(event.index, []).append(event.token_id)
        if check:
            core.check_integrity()
            for proposer in proposers.values():
                proposer.check_integrity()
    stats = core.stats().speculation.by_method.get("draft_model")
    core.close()
    for proposer in proposers.values():
        assert proposer.num_sequences == 0
        proposer.close()
    return [[found[n].get(i, []) for i in range(r.n)] for n, r in zip(numbers, requests, strict=True)], stats


def _requests(rng, vocab, count, *, longest=30, **options):
    return [
        EngineRequest(
            rng.integers(vocab, size=int(rng.integers(1, longest))).tolist(),
            sampling=SamplingOptions(**options),
            max_new_tokens=int(rng.integers(1, 20)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("kind", [{"block_size": 4}, {}, {"rewind": False}])
@pytest.mark.parametrize("draft", [{"block_size": 8}, {"rewind": False}])
def test_greedy_answers_are_those_of_the_model_alone(kind, draft):
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    requests = [
        *_requests(rng, 16, 6),
        *_requests(rng, 16, 2, repetition_penalty=1.4, no_repeat_ngram_size=2),
        *_requests(rng, 16, 2, min_length=20, bad_words=((3,), (4, 5))),
    ]
    plain, _ = _run(FakeBackend(16, max_context=128, **kind), requests, eos_ids=[1])
    model, other = FakeBackend(16, max_context=128, **kind), Similar(16, max_context=128, **draft)
    found, stats = _run(model, requests, draft=other, eos_ids=[1])
    assert found == plain
    assert 0 < stats.accepted_tokens < stats.verified_tokens


def test_a_model_agrees_with_all_that_it_guesses_itself():
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    requests = [
        *_requests(rng, 16, 3),
        *_requests(rng, 16, 3, temperature=0.9, seed=int(rng.integers(2**60))),
        *_requests(rng, 16, 3, temperature=1.3, top_k=5, repetition_penalty=1.2, seed=3),
    ]
    model = FakeBackend(16, block_size=4)
    _, stats = _run(model, requests, draft=model)
    assert stats.verified_tokens == stats.accepted_tokens > 0
    assert stats.failures == 0


def test_sampled_answers_are_distributed_as_those_of_the_model_alone():
    vocab, prompt, length = 5, [1, 2, 3], 3
    model = FakeBackend(vocab, block_size=4)
    options = {"temperature": 1.2, "top_p": 0.95, "presence_penalty": 0.6}

    def shares(answer):
        row = model.logits_after([*prompt, *answer])
        row[list(answer)] -= np.float32(0.6)
        ids, own = distribution(row, Draw(1.2, top_p=0.95))
        return dict(zip(ids.tolist(), own.tolist(), strict=True))

    expected = Counter()
    for answer in itertools.product(range(vocab), repeat=length):
        chance = 1.0
        for at, token in enumerate(answer):
            chance *= shares(answer[:at]).get(token, 0.0) if chance else 0.0
        expected[answer] = chance
    requests = [
        EngineRequest(prompt, sampling=SamplingOptions(**options, seed=seed), max_new_tokens=length + 2, n=32)
        for seed in range(63)
    ]
    draft = Similar(vocab, block_size=4)
    found, stats = _run(model, requests, draft=draft, check=False)
    counts = Counter(tuple(answer[:length]) for own in found for answer in own)
    answers = sorted(expected)
    assert counts.total() == 63 * 32
    assert 0.2 < stats.acceptance_rate < 0.9
    deviation = chi_square_deviation(
        [counts[a] for a in answers], np.array([expected[a] for a in answers]) * counts.total()
    )
    assert deviation < 3.7


def test_requests_with_and_without_drafts_share_steps():
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    mixed = [
        EngineRequest(
            rng.integers(16, size=9).tolist(),
            sampling=SamplingOptions(temperature=t, seed=5),
            max_new_tokens=12,
            speculation=Speculation(method, adaptive=False),
        )
        for t, method in itertools.product([0.0, 0.8], ["off", "prompt_lookup", "draft_model"])
    ]
    model = FakeBackend(16, block_size=4)
    plain, _ = _run(model, [replace(request, speculation=None) for request in mixed])
    found, stats = _run(model, mixed, draft=Similar(16, block_size=4), config=EngineConfig(cache_tokens=4096))
    assert stats.verified_tokens > 0
    assert found[:5] == plain[:5]  # of these the very tokens; the last one is drawn with other numbers
    assert len(found[5][0]) == 12


def test_drafts_follow_grammars():
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    eos, grammars = 15, ListCompiler(16, [15])
    allowed = [[rng.integers(1, 6, size=int(n)).tolist() for n in rng.integers(6, 14, 40)] for _ in range(8)]
    requests = [
        EngineRequest(
            rng.integers(15, size=5).tolist(),
            sampling=SamplingOptions(temperature=temperature, seed=4),
            max_new_tokens=20,
            grammar=lists(*answers, fast_forward=fast),
        )
        for answers, (temperature, fast) in zip(
            allowed, itertools.product([0.0, 1.0], [True, False, True, False]), strict=True
        )
    ]
    model = FakeBackend(16, block_size=4)
    plain, _ = _run(model, requests, eos_ids=[eos], grammars=grammars)
    for draft in (model, Similar(16, block_size=4)):
        found, stats = _run(model, requests, eos_ids=[eos], grammars=grammars, draft=draft)
        assert found[:4] == plain[:4]
        for (answer,), own in zip(found, allowed, strict=True):
            assert [t for t in answer if t != eos] in own
        assert 0 < stats.accepted_tokens <= stats.verified_tokens
        if draft is model:  # an end behind a complete answer is guessed, and not looked at
            assert stats.accepted_tokens >= stats.verified_tokens - len(requests)


def test_a_draft_model_that_fails_costs_nobody_anything(caplog):
    rng = np.random.default_rng()
    requests = _requests(rng, 16, 4)
    model = FakeBackend(16, block_size=4)
    plain, _ = _run(model, requests)
    for failing in ([0], [2], range(1000)):
        draft = Similar(16, block_size=4, fail_steps=failing)
        found, stats = _run(model, requests, draft=draft)
        assert found == plain
        assert 1 <= stats.failures <= 3
    assert "not asked again" in caplog.text


def test_preempted_sequences_and_a_small_draft_cache():
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    requests = _requests(rng, 16, 12)
    model = FakeBackend(16, block_size=4, max_context=64)
    plain, _ = _run(model, requests)
    config = EngineConfig(
        cache_tokens=96,
        scheduler=SchedulerConfig(max_seqs=8, max_step_tokens=24, chunk_tokens=8),
        speculation=DRAFTS,
    )
    draft = Similar(16, block_size=4, max_context=64)
    small = DraftModelOptions(cache_tokens=80, catch_up_tokens=6, min_confidence=0.0)
    found, _ = _run(model, requests, draft=draft, config=config, options=small)
    assert found == plain


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A decoder, and one whose weights are nearly the same."""
    folder = tmp_path_factory.mktemp("pair")
    sizes = Sizes(vocab=41, context=96)
    large, small = TinyDecoder(sizes, seed=3), TinyDecoder(sizes, seed=3)
    rng = np.random.default_rng(5)
    for name, weights in small.weights.items():
        small.weights[name] = weights + 0.08 * rng.standard_normal(weights.shape).astype(np.float32)
    config = RuntimeConfig(threads=2, cache_dir=folder / "cache")
    made = [
        NativeBackend(decoder_model(decoder, Style(), folder / f"{name}.onnx"), config)
        for name, decoder in (("large", large), ("small", small))
    ]
    yield made
    for backend in made:
        backend.close()


def test_answers_of_native_models_are_those_of_the_model_alone(pair):
    large, small = pair
    rng = np.random.default_rng()
    print("state", rng.bit_generator.state)
    requests = _requests(rng, 41, 6)
    plain, _ = _run(large, requests)
    found, stats = _run(large, requests, draft=small)
    assert found == plain
    assert 0 < stats.accepted_tokens < stats.verified_tokens
    for same in (requests, _requests(rng, 41, 4, temperature=0.8, seed=7)):
        _, stats = _run(large, same, draft=large)
        assert stats.verified_tokens == stats.accepted_tokens
