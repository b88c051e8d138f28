"""Grammars on every backend: answers follow them, and are what each request gets alone, whoever is beside it."""

import json
import re
import secrets
from dataclasses import replace

import jsonschema
import numpy as np
import pytest

import tiny_tokenizer
from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.backends import load_backend
from onnxgen.backends.fake import FakeBackend
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.scheduler.config import SchedulerConfig

SEED = secrets.randbits(32)
INT4 = BuildOptions(precision="int4", block_size=32, accuracy_level=4)
FLOAT = BuildOptions(precision="fp32")
KINDS = {
    "fake": ("fake", None, None, False),
    "native, 4 bits": ("native", "qwen3", INT4, False),
    "native, windows": ("native", "gemma3", FLOAT, False),
    "native, rotary switch": ("native", "phi3-longrope", FLOAT, False),
    "ort, strict": ("ort", "qwen3", INT4, True),
    "ort": ("ort", "llama-untied", FLOAT, False),
}
MAX_SEQ = 128
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]{1,6}$"},
        "kind": {"enum": ["warning", "error", "notice"]},
        "count": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "kind", "count"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},  # short answers
}
PATTERN = r"(the|then|thing){1,3} [0-9]{2,4}(in|on)?"
CHOICES = ["the thing", "the other thing", "nothing"]
GRAMMARS = {
    "schema": Grammar.json_schema(SCHEMA),
    "pattern": Grammar.regex(PATTERN),
    "choice": Grammar.choice(CHOICES),
}


def check_text(name, text):
    """Whether a text is one of the grammar."""
    if name == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
    elif name == "pattern":
        assert re.fullmatch(PATTERN, text), text
    else:
        assert text in CHOICES


class Engines:
    """Engines over one backend, with the tiny tokenizer."""

    def __init__(self, folder, *, kind, name, options, strict):
        self.strict = strict
        self.switch = None
        if kind == "fake":
            tiny_tokenizer.write_tokenizer(folder)
            self.backend = FakeBackend(tiny_tokenizer.VOCAB_SIZE, max_context=MAX_SEQ, block_size=8)
        else:
            build(
                write_checkpoint(CHECKPOINTS[name], folder / "checkpoint"), folder / "model", options=options
            )
            spec = load_model_spec(folder / "model")
            config = RuntimeConfig(backend=kind, threads=2, cache_dir=folder / "cache")
            self.backend, self.switch = load_backend(spec.decoder, config), spec.decoder.rope_switch_length
            folder = folder / "model"
        self.tokenizer = Tokenizer.from_folder(folder, model_vocab_size=self.backend.vocab_size)
        self.eos = (tiny_tokenizer.EOS,)
        self.grammars = GrammarCompiler(self.tokenizer, vocab_size=self.backend.vocab_size, eos_ids=self.eos)
        self.exact = strict or self.backend.capabilities.batch_invariant or kind == "fake"

    def run(self, requests, *, cache_tokens=4096, reuse=True, host_tier_mb=0, arrivals=None, **budgets):
        """Of each request the tokens of its samples and why they end; and the engine's counts."""
        core = EngineCore(
            self.backend,
            EngineConfig(
                scheduler=SchedulerConfig(**budgets),
                cache_tokens=cache_tokens,
                max_seq_tokens=MAX_SEQ,
                prefix_reuse=reuse,
                host_tier_mb=host_tier_mb,
                strict=self.strict,
            ),
            eos_ids=self.eos,
            rope_switch_length=self.switch,
            grammars=self.grammars,
        )
        arrivals, step = [0] * len(requests) if arrivals is None else list(arrivals), 0
        number, found = {}, [[([], None)] * request.n for request in requests]
        while core.has_work or any(at is not None for at in arrivals):
            for i, at in enumerate(arrivals):
                if at is not None and at <= step:
                    number[core.submit(requests[i])], arrivals[i] = i, None
            for event in core.step():
                assert event.error is None, event.error
                samples = found[number[event.request_id]]
                tokens, _ = samples[event.index]
                told = event.token_id is not None and not event.is_eos
                samples[event.index] = [*tokens, *([event.token_id] if told else [])], event.finish_reason
            core.check_integrity()
            step += 1
        stats = core.stats()
        core.close()
        return found, stats

    def alone(self, requests, **config):
        return [self.run([request], reuse=False, **config)[0][0] for request in requests]


@pytest.fixture(scope="module", params=KINDS)
def engines(request, tmp_path_factory):
    print(f"seed {SEED}")
    kind, name, options, strict = KINDS[request.param]
    made = Engines(tmp_path_factory.mktemp("model"), kind=kind, name=name, options=options, strict=strict)
    yield made
    made.grammars.close()
    made.backend.close()


def requests_for(engines, count, *, fast_forward, longest=30, n=1):
    """Requests with each grammar and with none; greedy ones only where results depend on the company."""
    rng = np.random.default_rng(SEED)
    draws = [0.0, 0.9, 1.5] if engines.exact else [0.0]
    names = [*GRAMMARS, None]
    return [names[i % 4] for i in range(count)], [
        EngineRequest(
            rng.integers(3, engines.backend.vocab_size, rng.integers(1, longest)).tolist(),
            sampling=SamplingOptions(temperature=draws[i % len(draws)], seed=i, repetition_penalty=1.1),
            grammar=GRAMMARS[names[i % 4]].with_fast_forward(fast_forward) if names[i % 4] else None,
            max_new_tokens=None if names[i % 4] else 15,
            n=n,
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("fast_forward", [True, False])
def test_answers_follow_their_grammars_and_are_those_of_each_alone(engines, fast_forward):
    names, requests = requests_for(engines, 8, fast_forward=fast_forward)
    alone = engines.alone(requests)
    for name, [(tokens, reason)] in zip(names, alone, strict=True):
        if name is not None:
            assert reason == "eos"
            check_text(name, engines.tokenizer.decode(tokens))
    rng = np.random.default_rng(SEED + 1)
    for budgets in ({}, {"chunk_tokens": 5, "max_step_tokens": 40}):
        if engines.strict and budgets:
            continue  # another grid is another computation there
        found, _ = engines.run(requests, arrivals=rng.integers(0, 6, len(requests)), **budgets)
        if engines.exact:
            assert found == alone
        for name, [(tokens, _)] in zip(names, found, strict=True):
            if name is not None:
                check_text(name, engines.tokenizer.decode(tokens))


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_answers_survive_that_sequences_give_way(engines, preemption):
    if not engines.exact:
        pytest.skip("who is computed again in other company gets other bits")
    _, requests = requests_for(engines, 8, fast_forward=True, longest=20)
    long = Grammar.regex("((the|in|on|er|ll)[ -]){30,40} and so forth, and so on")
    requests = [replace(r, grammar=long, max_new_tokens=None) if i % 2 else r for i, r in enumerate(requests)]
    found, stats = engines.run(
        requests,
        cache_tokens=MAX_SEQ + 32,
        preemption=preemption,
        host_tier_mb=64 if preemption == "swap" else 0,
    )
    assert found == engines.alone(requests)
    if engines.backend.capabilities.paged:
        assert stats.preemptions > 0


@pytest.mark.parametrize("fast_forward", [True, False])
def test_samples_of_a_request_go_their_own_ways(engines, fast_forward):
    if not engines.exact:
        pytest.skip("drawn tokens depend on the company there")
    names, requests = requests_for(engines, 3, fast_forward=fast_forward, n=3)
    requests = [replace(r, sampling=replace(r.sampling, temperature=2.0)) for r in requests]
    found, _ = engines.run(requests)
    assert found == engines.alone(requests)
    for name, samples in zip(names, found, strict=True):
        for tokens, reason in samples:
            assert reason == "eos"
            check_text(name, engines.tokenizer.decode(tokens))


def test_tokens_that_must_follow_are_not_asked_for(engines):
    """Text of which nearly all is fixed takes few steps, and is the text that the grammar fixes."""
    grammar = Grammar.regex("the weather in the north is wonderful, (and|but) that in the south is not")
    request = EngineRequest([5, 9, 11], grammar=grammar)
    [[(tokens, reason)]], stats = engines.run([request])
    assert reason == "eos"
    assert re.fullmatch(grammar.source, engines.tokenizer.decode(tokens))
    if not engines.strict:
        assert stats.steps < len(tokens) / 2
    slow, slow_stats = engines.run([replace(request, grammar=grammar.with_fast_forward(False))])
    assert re.fullmatch(grammar.source, engines.tokenizer.decode(slow[0][0][0]))
    assert slow_stats.steps > stats.steps or engines.strict
