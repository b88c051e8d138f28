"""The engine's promise on every backend: a request gets the tokens it gets alone, whatever happens around it."""

import math
import random
import secrets
from dataclasses import replace

import numpy as np
import pytest

from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends import load_backend
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.scheduler.config import SchedulerConfig
from random_sampling import random_sampling

SEED = secrets.randbits(32)
INT4 = BuildOptions(precision="int4", block_size=32, accuracy_level=4)
FLOAT = BuildOptions(precision="fp32")
KINDS = {
    "native, 4 bits": ("native", "qwen3", INT4, False),
    "native, windows": ("native", "gemma3", FLOAT, False),
    "native, all windows": ("native", "qwen2-window", FLOAT, False),
    "ort, strict": ("ort", "qwen3", INT4, True),
    "ort, windows, strict": ("ort", "gemma3", FLOAT, True),
    "ort": ("ort", "llama-untied", FLOAT, False),
}


class Engines:
    """Engines over one loaded model."""

    def __init__(self, folder, *, backend, strict):
        spec = load_model_spec(folder)
        config = RuntimeConfig(backend=backend, threads=2, cache_dir=folder / "cache")
        self.backend = load_backend(spec.decoder, config)
        self.switch = spec.decoder.rope_switch_length
        self.vocab_size = spec.vocab_size
        self.exact = strict or self.backend.capabilities.batch_invariant
        self.strict = strict

    def open(self, *, cache_tokens=2048, reuse=True, host_tier_mb=0, **budgets):
        return EngineCore(
            self.backend,
            EngineConfig(
                scheduler=SchedulerConfig(**budgets),
                cache_tokens=cache_tokens,
                max_seq_tokens=128,
                prefix_reuse=reuse,
                host_tier_mb=host_tier_mb,
                strict=self.strict,
            ),
            rope_switch_length=self.switch,
        )

    def run(self, requests, **config):
        """Tokens of each request, in the order of the list; see `told`."""
        found, stats = self.told(requests, **config)
        tokens = [[(e.index, e.token_id) for e in events if e.token_id is not None] for events in found]
        return tokens, stats

    def told(self, requests, *, arrivals=None, max_seqs_by_step=None, **config):
        """Events of each request, sample after sample, in the order of the list; ``arrivals`` are steps."""
        core = self.open(**config)
        budgets = {k: v for k, v in config.items() if k not in ("cache_tokens", "reuse", "host_tier_mb")}
        arrivals = [0] * len(requests) if arrivals is None else list(arrivals)
        number, found, step = {}, {i: [] for i in range(len(requests))}, 0
        while core.has_work or arrivals.count(None) < len(requests):
            for i, at in enumerate(arrivals):
                if at is not None and at <= step:
                    number[core.submit(requests[i])] = i
                    arrivals[i] = None
            if max_seqs_by_step is not None:
                core.reconfigure(replace(SchedulerConfig(**budgets), max_seqs=max_seqs_by_step(step)))
            for event in core.step():
                assert event.error is None, event.error
                found[number[event.request_id]].append(event)
            core.check_integrity()
            step += 1
        stats = core.stats()
        core.close()
        return [sorted(events, key=lambda e: e.index) for events in found.values()], stats

    def alone(self, requests, **config):
        return [self.run([request], reuse=False, **config)[0][0] for request in requests]


@pytest.fixture(scope="module", params=KINDS)
def engines(request, tmp_path_factory):
    print(f"seed {SEED}")
    backend, name, options, strict = KINDS[request.param]
    folder = tmp_path_factory.mktemp("model")
    build(write_checkpoint(CHECKPOINTS[name], folder / "checkpoint"), folder / "model", options=options)
    made = Engines(folder / "model", backend=backend, strict=strict)
    yield made
    made.backend.close()


def requests_for(engines, count, *, longest=90):
    """Requests of mixed lengths; greedy ones only where the backend's results depend on the company."""
    rng = np.random.default_rng(SEED)
    prompts = [rng.integers(3, engines.vocab_size, rng.integers(1, longest)).tolist() for _ in range(count)]
    draws = [0.0, 0.9] if engines.exact else [0.0]
    return [
        EngineRequest(
            prompt,
            sampling=SamplingOptions(temperature=draws[i % len(draws)], seed=i, top_p=0.95),
            max_new_tokens=int(rng.integers(2, 24)),
            ignore_eos=True,
        )
        for i, prompt in enumerate(prompts)
    ]


def test_in_a_crowd_in_any_order_and_in_chunks(engines):
    requests = requests_for(engines, 8)
    alone = engines.alone(requests)
    rng = np.random.default_rng(SEED + 1)
    for budgets in ({}, {"chunk_tokens": 7, "max_step_tokens": 40}):
        if engines.strict and budgets:
            continue  # another grid is another computation there
        order = rng.permutation(len(requests))
        found, _ = engines.run(
            [requests[i] for i in order], arrivals=rng.integers(0, 6, len(requests)), **budgets
        )
        assert [found[list(order).index(i)] for i in range(len(requests))] == alone


def test_after_preemption(engines):
    requests = [  # each grows from one block into a second, and there are five
        replace(request, prompt=[*request.prompt, *range(3, 60)][:20], max_new_tokens=90)
        for request in requests_for(engines, 4)
    ]
    alone = engines.alone(requests)
    found, stats = engines.run(requests, cache_tokens=320)
    assert found == alone
    if engines.backend.capabilities.paged:
        assert stats.preemptions > 0
    swapped, stats = engines.run(requests, cache_tokens=320, host_tier_mb=64, preemption="swap")
    assert swapped == alone
    if engines.backend.capabilities.paged:
        assert stats.cache.swapped_out > 0


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_while_seats_come_and_go(engines, preemption):
    if not engines.exact:
        pytest.skip("who is computed again in other company gets other bits")
    requests = [replace(request, max_new_tokens=20) for request in requests_for(engines, 5)]
    found, stats = engines.run(
        requests,
        max_seqs_by_step=lambda step: 1 if step // 5 % 2 else 5,
        preemption=preemption,
        host_tier_mb=64 if preemption == "swap" else 0,
        chunk_tokens=16,
    )
    assert found == engines.alone(requests, chunk_tokens=16)
    assert stats.preemptions > 0
    assert (stats.cache.swapped_out > 0) == (preemption == "swap")


def test_with_a_prefix_that_was_computed_before(engines):
    rng = np.random.default_rng(SEED + 2)
    system = rng.integers(3, engines.vocab_size, 70).tolist()
    requests = [
        EngineRequest(
            [*system, *rng.integers(3, engines.vocab_size, n).tolist()], max_new_tokens=12, ignore_eos=True
        )
        for n in (1, 5, 9, 16, 17, 30)
    ]
    found, stats = engines.run(requests, arrivals=[0, 3, 3, 9, 9, 30])
    assert found == engines.alone(requests)
    if not engines.strict:
        assert stats.cache.hit_tokens >= 5 * 64


def test_samples_of_one_prompt(engines):
    if not engines.exact:
        pytest.skip("drawn tokens need equal bits")
    rng = np.random.default_rng(SEED + 3)
    prompt = rng.integers(3, engines.vocab_size, 37).tolist()
    together = EngineRequest(
        prompt, sampling=SamplingOptions(temperature=1.0, seed=3), n=3, max_new_tokens=10, ignore_eos=True
    )
    single = [
        EngineRequest(
            prompt,
            sampling=SamplingOptions(temperature=1.0, seed=3, stream=i),
            max_new_tokens=10,
            ignore_eos=True,
        )
        for i in range(3)
    ]
    found, _ = engines.run([together, *requests_for(engines, 3)])
    expected = [token for alone in engines.alone(single) for _, token in alone]
    assert [token for _, token in found[0]] == expected


def requests_of_all_kinds(engines, count, *, system=()):
    """Any sampling options, samples and log probabilities; greedy where the backend's results depend on the company."""
    print(f"seed {SEED}")
    rng = random.Random(SEED)
    requests = []
    for _ in range(count):
        sampling = random_sampling(rng, vocab=engines.vocab_size, eos=5)
        prompt = [*system, *(rng.randrange(3, engines.vocab_size) for _ in range(rng.randint(1, 60)))]
        requests.append(
            EngineRequest(
                prompt,
                sampling=sampling if engines.exact else replace(sampling, temperature=0.0),
                max_new_tokens=rng.choice([0, 1, 4, 15, 15]),
                n=rng.choice([1, 1, 2]) if engines.exact else 1,
                ignore_eos=True,
                logprobs=rng.choice([None, 0, 3]),
                logprobs_of=rng.choice(["raw", "processed"]),
                prompt_logprobs=rng.choice([0, 2]),
                prompt_logprobs_start=rng.choice([0, rng.randrange(len(prompt))]),
            )
        )
    return requests


def check_equal(engines, found, alone):
    """The same events; log probabilities to the bit where the backend has the same bits in any company."""
    assert len(found) == len(alone)
    for one, other in zip(found, alone, strict=True):
        assert [(e.index, e.token_id, e.finish_reason) for e in one] == [
            (e.index, e.token_id, e.finish_reason) for e in other
        ]
        for mine, its in zip(one, other, strict=True):
            if engines.exact:
                assert (mine.logprobs, mine.prompt_logprobs) == (its.logprobs, its.prompt_logprobs)
                continue
            pairs = zip(scores_of(mine), scores_of(its), strict=True)
            assert all(math.isclose(a.logprob, b.logprob, abs_tol=1e-3) for a, b in pairs)


def scores_of(event):
    return [s for s in (event.logprobs, *(event.prompt_logprobs or ())) if s is not None]


def told_alone(engines, requests):
    return [engines.told([request], reuse=False)[0][0] for request in requests]


def test_every_option_and_every_score_is_as_alone(engines):
    requests = requests_of_all_kinds(engines, 10)
    alone = told_alone(engines, requests)
    assert any(e.logprobs is not None for events in alone for e in events)
    rng = random.Random(SEED + 4)
    for budgets in ({}, {"chunk_tokens": 7, "max_step_tokens": 40}, {"max_seqs": 3, "cache_tokens": 320}):
        if engines.strict and "chunk_tokens" in budgets:
            continue  # another grid is another computation there
        order = rng.sample(range(len(requests)), len(requests))
        arrivals = [rng.randrange(6) for _ in order]
        found, _ = engines.told([requests[i] for i in order], arrivals=arrivals, **budgets)
        check_equal(engines, [found[order.index(i)] for i in range(len(requests))], alone)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_scores_while_seats_come_and_go(engines, preemption):
    if not engines.exact:
        pytest.skip("who is computed again in other company gets other bits")
    # some that are still there when seats go
    long = [EngineRequest([5 + i, 6, 7], max_new_tokens=12, ignore_eos=True, logprobs=1) for i in range(3)]
    requests = [*long, *requests_of_all_kinds(engines, 6)]
    found, stats = engines.told(
        requests,
        max_seqs_by_step=lambda step: 2 if step // 3 % 2 else 6,
        preemption=preemption,
        host_tier_mb=64 if preemption == "swap" else 0,
        chunk_tokens=16,
    )
    alone = [engines.told([r], reuse=False, chunk_tokens=16)[0][0] for r in requests]
    check_equal(engines, found, alone)
    assert stats.preemptions > 0


def test_scores_behind_a_prefix_that_was_computed_before(engines):
    rng = random.Random(SEED + 5)
    system = [rng.randrange(3, engines.vocab_size) for _ in range(40)]
    requests = requests_of_all_kinds(engines, 6, system=system)
    first = EngineRequest([*system, 4], max_new_tokens=2, ignore_eos=True)
    found, stats = engines.told([first, *requests], arrivals=[0, *range(4, 10)])
    check_equal(engines, found[1:], told_alone(engines, requests))
    if not engines.strict:
        starts = [r.prompt_logprobs_start for r in requests]
        assert stats.cache.hit_tokens >= sum(min(max(start - 1, 0), 32) for start in starts)
