"""Guessed tokens change nothing but time: on every backend a request gets the tokens that it gets without.

Drafts come from a script that knows what will follow, and says so, says something else, or fails. On a backend whose results
depend on what else is in a step (ONNX Runtime) rows of a verification have other last bits than the rows of decodes: there
the tokens are equal up to one where the model was undecided.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import replace

import numpy as np
import pytest

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends import load_backend
from onnxgen.backends.fake import FakeBackend
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.engine.speculation.options import Speculation
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.scheduler.config import SchedulerConfig
from scripted_proposer import ScriptedProposer
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model

SEED = secrets.randbits(32)
INT4 = BuildOptions(precision="int4", block_size=32, accuracy_level=4)
FLOAT = BuildOptions(precision="fp32")
FAKES = {
    "fake, pages": {"block_size": 4},
    "fake, slots": {},
    "fake, windows": {"block_size": 3, "window": 7},
    "fake, recurrent": {"rewind": False},
}
MODELS = {
    "native, 4 bits": ("native", "qwen3", INT4),
    "native, windows": ("native", "gemma3", FLOAT),
    "ort": ("ort", "llama-untied", FLOAT),
}
RECURRENT = "ort, recurrent"
MAX_TOKENS = 96


class World:
    """One backend, and what requests are answered on it."""

    def __init__(self, backend):
        self.backend = backend
        self.vocab_size = backend.vocab_size
        self.exact = backend.capabilities.batch_invariant or isinstance(backend, FakeBackend)
        self.plain: dict[int, list] = {}

    def run(
        self, requests, *, proposer=None, cache_tokens=1024, host_tier_mb=0, reuse=True, waves=1, **budgets
    ):
        """Events of each request, by sample, and the engine's statistics."""
        core = EngineCore(
            self.backend,
            EngineConfig(
                scheduler=SchedulerConfig(**budgets),
                cache_tokens=cache_tokens,
                max_seq_tokens=MAX_TOKENS,
                prefix_reuse=reuse,
                host_tier_mb=host_tier_mb,
            ),
            eos_ids=[2],
            proposers=None if proposer is None else {"prompt_lookup": proposer},
        )
        found: list[dict[int, list]] = [{} for _ in requests]
        try:
            for wave in range(waves):
                part = range(wave, len(requests), waves)
                number = {core.submit(requests[i]): i for i in part}
                while core.has_work:
                    for event in core.step():
                        assert event.error is None, event.error
                        found[number[event.request_id]].setdefault(event.index, []).append(event)
                    core.check_integrity()
            stats = core.stats()
            core.forget_prefixes()
            assert core.stats().cache.full.free == core.stats().cache.full.total
        finally:
            core.close()
        return found, stats

    def alone(self, requests):
        """The same without drafts, each request by itself."""
        plain = [replace(request, speculation=Speculation("off")) for request in requests]
        return [self.run([request], reuse=False)[0][0] for request in plain]


@pytest.fixture(scope="module", params=[*FAKES, *MODELS, RECURRENT])
def world(request, tmp_path_factory):
    print(f"seed {SEED}")
    if request.param in FAKES:
        yield World(FakeBackend(61, max_context=MAX_TOKENS, eos_token_id=2, **FAKES[request.param]))
        return
    folder = tmp_path_factory.mktemp("model")
    if request.param == RECURRENT:
        decoder = TinyDecoder(Sizes(conv_layers=(0,), layers=3, context=128), SEED)
        model = decoder_model(decoder, Style("plain"), folder / "model.onnx")
        loaded = OrtBackend(model, RuntimeConfig(threads=1, cache_dir=folder))
        assert not loaded.capabilities.rewind
        yield World(loaded)
        loaded.close()
        return
    backend, name, options = MODELS[request.param]
    build(write_checkpoint(CHECKPOINTS[name], folder / "checkpoint"), folder / "model", options=options)
    spec = load_model_spec(folder / "model")
    config = RuntimeConfig(backend=backend, threads=2, cache_dir=folder / "cache")
    loaded = load_backend(spec.decoder, config)
    yield World(loaded)
    loaded.close()


def requests_for(world, count=8, **changes):
    """Mixed in length, in how they choose, in what they tell, and in how they end."""
    rng = np.random.default_rng(SEED)
    kinds = [
        {"sampling": SamplingOptions(temperature=0)},
        {"sampling": SamplingOptions(temperature=0.9, seed=3, top_p=0.95, xtc_probability=0.5)},
        {"sampling": SamplingOptions(temperature=0, repetition_penalty=1.3, frequency_penalty=0.4)},
        {"logprobs": 3, "sampling": SamplingOptions(temperature=0.7, seed=5, top_k=20)},
        {"sampling": SamplingOptions(temperature=0, no_repeat_ngram_size=2, dry_multiplier=0.8)},
        {"n": 2, "sampling": SamplingOptions(temperature=1.0, seed=9)},
        {"logprobs": 2, "logprobs_of": "processed", "sampling": SamplingOptions(temperature=0.8, seed=1)},
        {"stop_token_ids": tuple(range(3, 12)), "sampling": SamplingOptions(temperature=0, min_length=30)},
    ]
    made = []
    for i in range(count):
        prompt = rng.integers(12, world.vocab_size, rng.integers(1, 40)).tolist()
        kind = dict(kinds[i % len(kinds)])
        if not world.exact:  # drawn tokens need equal bits, and so do penalties on tokens that were
            kind["sampling"] = SamplingOptions(temperature=0)
        made.append(
            EngineRequest(
                prompt,
                max_new_tokens=int(rng.integers(1, 40)),
                ignore_eos=bool(i % 2),
                speculation=Speculation(
                    "prompt_lookup", max_draft_tokens=int(rng.integers(1, 9)), adaptive=False
                ),
                **(kind | changes),
            )
        )
    return made


def oracle(requests, answers):
    """What follows a sequence, from what requests get alone."""
    known = {
        id(r): {i: tokens_of(events) for i, events in own.items()}
        for r, own in zip(requests, answers, strict=True)
    }

    def following(wanted):
        sample = wanted.row
        return known[id(sample.request)][sample.index][sample.num_new_tokens :]

    return following


def tokens_of(events):
    return [event.token_id for event in events if event.token_id is not None]


def check(world, requests, found, alone):
    for request, own, plain in zip(requests, found, alone, strict=True):
        assert own.keys() == plain.keys()
        for index, events in own.items():
            check_sample(world, request, events, plain[index])


def check_sample(world, request, events, plain):
    if world.exact:
        told = [(e.token_id, e.is_eos, e.finish_reason, e.logprobs) for e in events]
        assert told == [(e.token_id, e.is_eos, e.finish_reason, e.logprobs) for e in plain]
        assert events[-1].usage.completion_tokens == plain[-1].usage.completion_tokens
        return
    ours, theirs = tokens_of(events), tokens_of(plain)
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if at is None:
        assert len(ours) == len(theirs)
        assert [e.finish_reason for e in events] == [e.finish_reason for e in plain]
    else:
        assert margin(world, [*request.prompt, *ours[:at]], ours[at], theirs[at]) < 1e-3


def margin(world, tokens, a, b):
    """How far apart the logits of two tokens are; only meant for requests without penalties."""
    core = EngineCore(world.backend, EngineConfig(cache_tokens=MAX_TOKENS * 2, max_seq_tokens=MAX_TOKENS))
    core.submit(EngineRequest(tokens, max_new_tokens=1, logprobs=20))
    events = []
    while core.has_work:
        events += core.step()
    core.close()
    top = dict(events[0].logprobs.top)
    return abs(top.get(a, 9.0) - top.get(b, -9.0))


def scripted(world, requests, alone, **options):
    return ScriptedProposer(random.Random(SEED), oracle(requests, alone), vocab=world.vocab_size, **options)


@pytest.mark.parametrize("right", [1.0, 0.5, 0.0], ids=["right", "partly right", "wrong"])
def test_tokens_are_those_without_drafts_alone_and_in_company(world, right):
    requests = requests_for(world)
    alone = world.alone(requests)
    proposer = scripted(world, requests, alone, right=right)
    for request, plain in zip(requests, alone, strict=True):
        found, _ = world.run([request], proposer=proposer)
        check(world, [request], found, [plain])
        proposer.forgotten.clear()
    found, stats = world.run(requests, proposer=proposer)
    check(world, requests, found, alone)
    total = stats.speculation.total
    assert total.verified_tokens > 0
    assert 0 <= total.accepted_tokens <= total.verified_tokens
    if right == 1.0:
        assert total.accepted_tokens > 0.6 * total.verified_tokens
    usage = [events[-1].usage for own in found for events in own.values()]
    assert sum(each.draft_tokens for each in usage) == total.verified_tokens
    assert sum(each.accepted_draft_tokens for each in usage) == total.accepted_tokens


@pytest.mark.parametrize("preemption", ["swap", "recompute"])
def test_a_tiny_pool_and_those_who_give_way(world, preemption):
    requests = [replace(request, n=1) for request in requests_for(world, 6)]
    alone = world.alone(requests)
    proposer = scripted(world, requests, alone, right=0.7)
    found, _ = world.run(
        requests,
        proposer=proposer,
        cache_tokens=MAX_TOKENS + 8,
        host_tier_mb=1 if preemption == "swap" else 0,
        preemption=preemption,
        max_seqs=4,
    )
    check(world, requests, found, alone)


def test_prompts_in_chunks_and_small_steps(world):
    requests = requests_for(world)
    alone = world.alone(requests)
    for chunk in (1, 3, 8):
        proposer = scripted(world, requests, alone, right=0.8)
        found, stats = world.run(
            requests, proposer=proposer, chunk_tokens=chunk, max_step_tokens=max(chunk, 9), max_seqs=9
        )
        check(world, requests, found, alone)
        assert stats.speculation.total.verified_tokens == 0 or chunk > 1


def test_prefixes_that_drafts_left_behind_are_right(world):
    requests = requests_for(world, 6, n=1)
    alone = world.alone(requests)
    longer = [
        replace(request, prompt=[*request.prompt, *tokens_of(own[0])][: MAX_TOKENS - 45])
        for request, own in zip(requests, alone, strict=True)
    ]
    everyone = [*requests, *longer]
    alone += world.alone(longer)
    proposer = scripted(world, everyone, alone, right=0.5)
    found, stats = world.run(everyone, proposer=proposer, waves=3)
    check(world, everyone, found, alone)
    assert stats.cache.hit_tokens > 0 or not world.backend.capabilities.rewind


def test_a_proposer_that_fails_costs_nobody_anything(world, caplog):
    requests = requests_for(world)
    alone = world.alone(requests)
    proposer = scripted(world, requests, alone, failures=1.0)
    found, stats = world.run(requests, proposer=proposer)
    check(world, requests, found, alone)
    assert stats.speculation.by_method["prompt_lookup"].failures == 3, "and it is not asked a fourth time"
    assert (
        caplog.text.count("no drafts today") + caplog.text.count("odd") + caplog.text.count("KeyError") >= 1
    )


@pytest.mark.parametrize("adaptive", [True, False])
def test_prompt_lookup_keeps_the_tokens(world, adaptive):
    speculation = Speculation("prompt_lookup", max_draft_tokens=6, min_match=1, adaptive=adaptive)
    requests = [replace(r, speculation=speculation) for r in requests_for(world)]
    requests = [replace(r, prompt=(list(r.prompt) * 3)[:48]) for r in requests]
    alone = world.alone(requests)
    for config in ({}, {"chunk_tokens": 16, "max_step_tokens": 24, "max_seqs": 9}):
        found, stats = world.run(requests, **config)
        check(world, requests, found, alone)
        assert stats.speculation.total.proposed_tokens > 0
