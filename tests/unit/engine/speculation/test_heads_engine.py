"""Engines whose tokens a head of the model's own guesses: answers stay what they are without, whatever the head says."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from contextlib import closing
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from onnxgen.backends import load_backend
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.client.recipe import ModelRecipe
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.heads import HeadOptions, HeadProposer
from onnxgen.engine.speculation.of_heads import HeadRecipe, head_proposer
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata.load import load_model_spec
from onnxgen.scheduler.config import SchedulerConfig
from scripted_heads import ANY, HIDDEN, VOCAB, head_backend, head_spec
from tiny_decoders import FLOAT, Sizes, Style, TinyDecoder, write_graph
from tiny_heads import TinyHead

SEED = secrets.randbits(31)
TINY = 61
EVERY = Speculation("heads", max_draft_tokens=4, adaptive=False)


@pytest.fixture
def rng():
    print("seed", SEED)
    return np.random.default_rng(SEED)


def drive(core):
    events = []
    while core.has_work:
        events += core.step()
        core.check_integrity()
    return events


def answers(events):
    found = {}
    for event in events:
        found.setdefault((event.request_id, event.index), [])
        if event.token_id is not None:
            found[event.request_id, event.index].append(event.token_id)
    return found


def run(backend, requests, proposers=None, *, late=99_999, **config):
    config.setdefault("cache_tokens", 40 * 16)
    core = EngineCore(backend, EngineConfig(**config), eos_ids=[], proposers=proposers)
    events = []
    for number, request in enumerate(requests):
        core.submit(request)
        if number >= late:
            events += core.step()
    events += drive(core)
    stats = core.stats()
    core.close()
    return answers(events), stats


class Recorded:
    """A proposer, and what it was asked and said."""

    needs_hidden_states = True
    name = "heads"

    def __init__(self, inner):
        self.inner, self.turns = inner, []

    def propose(self, wanted):
        drafts = self.inner.propose(wanted)
        for one, draft in zip(wanted, drafts, strict=True):
            self.turns.append((one.history.copy(), one.hidden, draft))
        return drafts

    def forget(self, key):
        self.inner.forget(key)

    def close(self):
        self.inner.close()


@pytest.fixture(params=[{"block_size": 4}, {}, {"rewind": False}], ids=["pages", "slots", "recurrent"])
def scripted(request):
    return FakeBackend(VOCAB, hidden_size=HIDDEN, max_context=64, **request.param)


def requests_for(rng, count, **options):
    return [
        EngineRequest(
            prompt=tuple(rng.integers(VOCAB, size=int(rng.integers(1, 12))).tolist()),
            max_new_tokens=int(rng.integers(1, 14)),
            **options,
        )
        for _ in range(count)
    ]


def test_greedy_answers_are_those_without_a_head(scripted, rng):
    requests = requests_for(rng, 6)
    plain, _ = run(scripted, requests)
    head = Recorded(HeadProposer(head_backend(), head_spec(), vocab_size=VOCAB, options=ANY))
    guessed, _ = run(scripted, requests, {"heads": head}, speculation=EVERY)
    assert guessed == plain
    assert any(draft is not None for _, _, draft in head.turns)


def test_answers_stay_when_sequences_fork_share_prefixes_and_have_little_room(scripted, rng):
    common = tuple(rng.integers(VOCAB, size=6).tolist())
    requests = [
        replace(each, prompt=(*common, *each.prompt), n=1 + i % 3, max_new_tokens=12)
        for i, each in enumerate(requests_for(rng, 6))
    ]
    # there is room for about three
    tight = {"cache_tokens": 84 if scripted.capabilities.paged else 192, "late": 0}
    adaptive = replace(EVERY, adaptive=True)
    requests[2:4] = [replace(each, speculation=Speculation("off")) for each in requests[2:4]]
    requests[4:] = [replace(each, speculation=adaptive) for each in requests[4:]]
    plain, _ = run(scripted, [replace(each, speculation=None) for each in requests], **tight)
    inner = HeadProposer(
        head_backend(block_size=4), head_spec(), vocab_size=VOCAB,
        options=HeadOptions(cache_tokens=48, min_confidence=0.0),
    )  # fmt: skip
    head = Recorded(inner)
    guessed, stats = run(scripted, requests, {"heads": head}, speculation=EVERY, **tight)
    inner.check_integrity()
    assert guessed == plain
    assert stats.speculation.by_method["heads"].verified_tokens > 0


@pytest.mark.parametrize("fails", ["once", "always"])
def test_a_head_that_fails_costs_no_request_anything(scripted, rng, fails):
    requests = requests_for(rng, 4)
    plain, _ = run(scripted, requests)
    steps = [3] if fails == "once" else range(10_000)
    head = HeadProposer(head_backend(fail_steps=steps), head_spec(), vocab_size=VOCAB, options=ANY)
    guessed, _ = run(scripted, requests, {"heads": head}, speculation=EVERY)
    assert guessed == plain


@pytest.mark.parametrize("chunk", [3, 64])
def test_the_head_is_given_the_hidden_states_before_the_pending_token(scripted, rng, chunk):
    head = Recorded(HeadProposer(head_backend(), head_spec(), vocab_size=VOCAB, options=ANY))
    budgets = SchedulerConfig(chunk_tokens=chunk)
    requests = [replace(each, max_new_tokens=5) for each in requests_for(rng, 5)]
    run(scripted, requests, {"heads": head}, speculation=EVERY, scheduler=budgets, prefix_reuse=False)
    assert len(head.turns) >= 5
    known = dict.fromkeys((tuple(request.prompt) for request in requests), 0)
    for history, hidden, _ in head.turns:
        assert hidden is not None
        first = len(history) - 1 - len(hidden)
        prompt = next(p for p in known if tuple(history[: len(p)].tolist()) == p and len(p) < len(history))
        if scripted.capabilities.rewind:  # states of prompts are known as well, of all chunks
            assert first <= known[prompt]
        known[prompt] = len(history) - 1
        want = [scripted.hidden_after(history[: at + 1]) for at in range(first, len(history) - 1)]
        np.testing.assert_array_equal(hidden, np.array(want))


def test_drawn_answers_keep_their_distribution():
    # three tokens of a small vocabulary after one prompt, by many requests with seeds of their own
    target = FakeBackend(4, hidden_size=HIDDEN, max_context=16)
    requests = [
        EngineRequest(
            prompt=(1, 2),
            max_new_tokens=4,
            sampling=SamplingOptions(temperature=1.0, seed=i),
        )
        for i in range(600)
    ]
    proposer = HeadProposer(
        FakeBackend(4, hidden_size=HIDDEN, reads_hidden=True, max_context=16),
        head_spec(),
        vocab_size=4,
        options=HeadOptions(cache_tokens=2048, min_confidence=0.0),
    )
    head = Recorded(proposer)
    found, _ = run(target, requests, {"heads": head}, speculation=EVERY, cache_tokens=256)
    drafted = [draft for _, _, draft in head.turns if draft is not None]
    assert len(drafted) > len(requests) // 2
    assert all(draft.distributions is not None for draft in drafted)

    def shares(tokens):
        logits = target.logits_after(tokens).astype(np.float64)
        return np.exp(logits) / np.exp(logits).sum()

    seen = Counter(tuple(tokens[:3]) for tokens in found.values())
    chi = 0.0
    for a in range(4):
        for b in range(4):
            for c in range(4):
                share = shares([1, 2])[a] * shares([1, 2, a])[b] * shares([1, 2, a, b])[c]
                expected = share * len(requests)
                chi += (seen[a, b, c] - expected) ** 2 / expected
    assert chi < 120  # 63 degrees of freedom: beyond it once in 10,000 runs; these seeds are fixed


def write_folder(folder, target, head, *, section, kinds=("hidden_states",), extra_outputs=()):
    """A model folder with a head."""
    folder.mkdir(parents=True, exist_ok=True)
    proto = write_graph(target, Style(hidden_states=True))
    shape = ["batch", "seq", target.sizes.hidden]
    proto.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, shape) for name in extra_outputs)
    onnx.save(proto, folder / "model.onnx")
    onnx.save(head.graph(Style(hidden_states=True)), folder / "head.onnx")
    inputs = {"hidden_states": "hidden"} | ({"aux_hidden_states": "aux"} if head.aux else {})
    document = {
        "model": {
            "type": "llama",
            "vocab_size": target.sizes.vocab,
            "context_length": target.sizes.context,
            "decoder": {"filename": "model.onnx", "num_hidden_layers": target.sizes.layers},
            section: {
                "filename": "head.onnx",
                "main_hidden_states": kinds[0] if section == "mtp" else list(kinds),
                "inputs": inputs,
                "outputs": {"hidden_states": "hidden_states"},
            },
        }
    }
    if head.sizes.vocab != target.sizes.vocab:
        document["model"][section]["vocab_size"] = head.sizes.vocab
    (folder / "genai_config.json").write_text(json.dumps(document))
    return folder, document


def of_last_token(seed):
    """A decoder whose next token depends on the last one only, and a head that knows it."""
    sizes = Sizes(context=64)
    target = TinyDecoder(sizes, seed)
    head = TinyHead(replace(sizes, layers=1), seed + 1, ids=TINY)
    for decoder in (target, head.decoder):
        for name in decoder.weights:
            if name.endswith((".o", ".down")):
                decoder.weights[name] = np.zeros_like(decoder.weights[name])
    for name in ("embed", "norm", "head"):
        head.decoder.weights[name] = target.weights[name]
    eye = np.eye(sizes.hidden, dtype=np.float32)
    head.decoder.weights["fc"] = np.concatenate([eye, np.zeros_like(eye)])
    head.decoder.weights["embed_norm"] = np.ones(sizes.hidden, np.float32)
    return target, head


BACKENDS = ("native", "ort")


def tiny_requests(rng, count, **options):
    return [
        EngineRequest(
            prompt=tuple(rng.integers(TINY, size=int(rng.integers(2, 9))).tolist()),
            max_new_tokens=15,
            **options,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("section", ["mtp", "eagle"])
def test_a_head_that_is_right_has_everything_accepted(name, section, rng, tmp_path):
    target, head = of_last_token(SEED)
    folder, _ = write_folder(tmp_path / "m", target, head, section=section)
    spec, runtime = load_model_spec(folder), RuntimeConfig(backend=name, threads=2, cache_dir=tmp_path)
    backend = load_backend(spec.head.target(spec.decoder), runtime)
    requests = tiny_requests(rng, 4)
    plain, _ = run(backend, requests)
    with HeadRecipe(runtime, ANY).load(spec) as make, closing(make()) as proposer:
        guessed, stats = run(backend, requests, {"heads": proposer}, speculation=EVERY)
        proposer.check_integrity()
    assert guessed == plain
    of_heads = stats.speculation.by_method["heads"]
    assert of_heads.rounds > 0
    assert of_heads.accepted_tokens == of_heads.verified_tokens > 0
    # the first token, and then five at once
    assert stats.speculation.verify_steps <= 4
    backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_head_that_is_wrong_costs_no_token(name, rng, tmp_path):
    target, head = (
        TinyDecoder(Sizes(context=64), SEED),
        TinyHead(Sizes(layers=1, context=64), SEED + 7, ids=TINY),
    )
    folder, _ = write_folder(tmp_path / "m", target, head, section="mtp")
    spec, runtime = load_model_spec(folder), RuntimeConfig(backend=name, threads=2, cache_dir=tmp_path)
    backend = load_backend(spec.head.target(spec.decoder), runtime)
    requests = tiny_requests(rng, 5)
    plain, _ = run(backend, requests)
    with HeadRecipe(runtime, ANY).load(spec) as make, closing(make()) as proposer:
        recorded = Recorded(proposer)
        guessed, stats = run(backend, requests, {"heads": recorded}, speculation=EVERY)
    assert guessed == plain
    assert stats.speculation.by_method["heads"].verified_tokens > 0
    # what it was given is what the decoder makes of the sequence
    known = [turn for turn in recorded.turns if turn[1] is not None]
    assert known
    for history, hidden, _ in known[:5]:
        want = target.hidden(history.tolist())[len(history) - 1 - len(hidden) : -1]
        assert np.abs(hidden - want).max() < 0.05
    backend.close()


@pytest.mark.parametrize("name", BACKENDS)
def test_a_head_of_inner_layers_with_a_vocabulary_of_its_own(name, rng, tmp_path):
    target = TinyDecoder(Sizes(context=64), SEED)
    head = TinyHead(Sizes(layers=1, vocab=17, context=64), SEED + 3, ids=TINY, aux=64)
    ids = rng.permutation(TINY)[:17].tolist()
    folder, document = write_folder(
        tmp_path / "m", target, head, section="eagle", kinds=("sum0", "sum1"), extra_outputs=("sum0", "sum1")
    )
    document["model"]["eagle"]["vocab_map"] = "ids.json"
    (folder / "ids.json").write_text(json.dumps(ids))
    (folder / "genai_config.json").write_text(json.dumps(document))
    spec, runtime = load_model_spec(folder), RuntimeConfig(backend=name, threads=2, cache_dir=tmp_path)
    backend = load_backend(spec.head.target(spec.decoder), runtime)
    requests = tiny_requests(rng, 3)
    plain, _ = run(backend, requests)
    with HeadRecipe(runtime, ANY).load(spec) as make, closing(make()) as proposer:
        recorded = Recorded(proposer)
        guessed, _ = run(backend, requests, {"heads": recorded}, speculation=EVERY)
    assert guessed == plain
    drafts = [draft for _, _, draft in recorded.turns if draft is not None]
    assert {token for draft in drafts for token in draft.tokens} <= set(ids)
    for history, hidden, draft in recorded.turns:
        if draft is None or hidden is None or len(hidden) != len(history) - 1:
            continue
        logits, _ = head.run(history[1:], None, hidden)
        best = np.sort(logits[-1])[-2:]
        assert draft.tokens[0] == ids[int(logits[-1].argmax())] or best[1] - best[0] < 0.05
    backend.close()


def test_a_recipe_loads_model_and_head(rng, tmp_path):
    target, head = of_last_token(SEED)
    folder, _ = write_folder(tmp_path / "m", target, head, section="eagle")
    runtime, config = (
        RuntimeConfig(threads=2, cache_dir=tmp_path),
        EngineConfig(cache_tokens=640, speculation=EVERY),
    )
    found = []
    for proposers in ((), (HeadRecipe(runtime, ANY),)):
        engine = config if proposers else replace(config, speculation=Speculation("off"))
        with ModelRecipe(folder, runtime, engine, proposers=proposers)() as core:
            for request in tiny_requests(np.random.default_rng(SEED), 2):
                core.submit(request)
            found.append(answers(drive(core)))
            accepted = core.stats().speculation.by_method.get("heads")
    assert found[0] == found[1]
    assert accepted is not None
    assert accepted.accepted_tokens > 0


def test_a_model_without_a_head_says_so(tmp_path):
    target, head = of_last_token(SEED)
    folder, document = write_folder(tmp_path / "m", target, head, section="mtp")
    document["model"]["mtp"]["enabled"] = False
    (folder / "genai_config.json").write_text(json.dumps(document))
    spec, runtime = load_model_spec(folder), RuntimeConfig(cache_dir=tmp_path)
    with pytest.raises(ConfigError, match="has no head"), HeadRecipe(runtime).load(spec):
        pass
    with pytest.raises(ConfigError, match="has no head"):
        head_proposer(spec, head_backend())


def test_an_engine_whose_model_gives_no_hidden_states_refuses_heads():
    proposer = HeadProposer(head_backend(), head_spec(), vocab_size=VOCAB, options=ANY)
    with pytest.raises(CapabilityError, match="hidden states"):
        EngineCore(
            FakeBackend(VOCAB), EngineConfig(cache_tokens=64), eos_ids=[], proposers={"heads": proposer}
        )
