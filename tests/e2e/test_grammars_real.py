"""Grammars on a real model: whatever is drawn, the answers are what the schema describes."""

from __future__ import annotations

import contextlib
import json
import random
import re

import jsonschema
import pytest

from heard_events import Heard
from onnxgen.backends import load_backend
from onnxgen.engine.client import ModelRecipe, in_subprocess
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.core import EngineCore
from onnxgen.engine.of_model import engine_of
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import GrammarError
from onnxgen.facade.resolve import resolve_model
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.metadata import load_model_spec
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.scheduler.config import SchedulerConfig
from real_models import checkpoint_file

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "pattern": r"^[a-z]{1,12}@[a-z]{1,12}\.(com|org)$"},
        "role": {"enum": ["admin", "author", "reader"]},
        "score": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.01},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 1, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 16},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
            },
            "required": ["city", "zip"],
            "additionalProperties": False,
        },
        "active": {"type": "boolean"},
        "manager": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/person"}]},
    },
    "required": ["name", "age", "email", "role", "score", "tags", "address", "active", "manager"],
    "additionalProperties": False,
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 16}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
QUESTION = "Describe a user of our web site, as JSON."


@pytest.fixture(scope="module")
def folder():
    checkpoint_file("smollm2", fetch=True)
    return resolve_model("smollm2", config=load_runtime_config().config, precision="int4")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.from_folder(folder, model_vocab_size=load_model_spec(folder).vocab_size)


@pytest.fixture(scope="module")
def engine(folder, tokenizer):
    spec = load_model_spec(folder)
    with (
        contextlib.closing(load_backend(spec.decoder, RuntimeConfig(backend="native"))) as backend,
        contextlib.closing(
            GrammarCompiler(tokenizer, vocab_size=backend.vocab_size, eos_ids=spec.tokens.eos)
        ) as grammars,
        contextlib.closing(
            engine_of(
                spec,
                backend,
                EngineConfig(
                    scheduler=SchedulerConfig(max_seqs=16), max_seq_tokens=768, cache_tokens=16 * 768
                ),
                grammars=grammars,
            )
        ) as core,
    ):
        yield core


def prompt(tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode(
        f"<|im_start|>user\n{QUESTION}<|im_end|>\n<|im_start|>assistant\n", parse_special=True
    )


def answers(engine: EngineCore, requests: list[EngineRequest]) -> list[tuple[list[int], str]]:
    """Tokens of each request, and why it ends."""
    numbers = [engine.submit(request) for request in requests]
    tokens, reasons = {number: [] for number in numbers}, {}
    while engine.has_work:
        for event in engine.step():
            assert event.error is None, event.error
            if event.token_id is not None and not event.is_eos:
                tokens[event.request_id].append(event.token_id)
            if event.finish_reason is not None:
                reasons[event.request_id] = event.finish_reason
    return [(tokens[number], reasons[number]) for number in numbers]


def test_a_hundred_answers_at_temperature_1_are_all_what_the_schema_describes(engine, tokenizer):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    grammar = Grammar.json_schema(SCHEMA)
    requests = [
        EngineRequest(
            prompt(tokenizer),
            sampling=SamplingOptions(temperature=1.0, seed=seed + i),
            grammar=grammar.with_fast_forward(i % 2 == 0),
        )
        for i in range(100)
    ]
    before = engine.stats()
    found = answers(engine, requests)
    after = engine.stats()
    valid, texts = 0, [tokenizer.decode(tokens) for tokens, _ in found]
    for text, (_, reason) in zip(texts, found, strict=True):
        jsonschema.validate(json.loads(text), SCHEMA)
        valid += reason == "eos"
    print(
        f"{valid} of {len(found)} valid, {after.generated_tokens - before.generated_tokens} tokens in {after.steps - before.steps} steps"
    )
    assert valid == 100
    assert len(set(texts)) > 90


def test_samples_of_one_request_and_other_kinds_of_grammars(engine, tokenizer):
    question = prompt(tokenizer)
    drawn = SamplingOptions(temperature=1.0, seed=random.randrange(2**32))
    pattern = r"[A-Z][a-z]{2,10} (is|was) (a|the) [a-z]{3,12}\."
    kinds = {
        "pattern": Grammar.regex(pattern),
        "choice": Grammar.choice(["yes", "no", "perhaps later"]),
        "lark": Grammar.lark('start: "sum(" NUMBER ("," NUMBER){1,3} ")"\nNUMBER: /[1-9][0-9]{0,3}/'),
    }
    found = dict(
        zip(
            kinds,
            answers(engine, [EngineRequest(question, grammar=g, sampling=drawn) for g in kinds.values()]),
            strict=True,
        )
    )
    texts = {name: tokenizer.decode(tokens) for name, (tokens, _) in found.items()}
    assert {reason for _, reason in found.values()} == {"eos"}
    assert re.fullmatch(pattern, texts["pattern"])
    assert texts["choice"] in ("yes", "no", "perhaps later")
    assert re.fullmatch(r"sum\([1-9]\d{0,3}(,[1-9]\d{0,3}){1,3}\)", texts["lark"])


def test_an_engine_in_a_process_of_its_own_has_grammars(folder, tokenizer):
    recipe = ModelRecipe(
        folder, RuntimeConfig(backend="native"), EngineConfig(max_seq_tokens=512, cache_tokens=1024)
    )
    with in_subprocess(recipe) as client:
        client.start()
        heard = Heard()
        with pytest.raises(GrammarError):
            client.submit(EngineRequest([1, 2, 3], grammar=Grammar.regex("(unclosed")), heard)
        grammar = Grammar.json_schema(
            {
                "type": "object",
                "properties": {"yes": {"type": "boolean"}},
                "required": ["yes"],
                "additionalProperties": False,
            }
        )
        numbers = [client.submit(EngineRequest(prompt(tokenizer), grammar=grammar), heard) for _ in range(2)]
        for number in numbers:
            assert heard.end(number).finish_reason == "eos"
            assert json.loads(tokenizer.decode(heard.tokens(number)))["yes"] in (True, False)
