"""Guessing ahead on a real model: the same tokens and numbers as without, whatever is asked for."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from onnxgen import LLM, AsyncLLM, GenerationOptions, Speculation
from onnxgen.engine.config import EngineConfig
from onnxgen.facade.resolve import resolve_model
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.scheduler.config import SchedulerConfig
from real_models import checkpoint_file

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

NATIVE = RuntimeConfig(backend="native")
CODE = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return a - b\n\ndef mul(a, b):\n"
LIST = "1. apple\n2. banana\n3. cherry\n4. apple\n5. banana\n6. "
JSON = '{"name": "Ann", "age": 3}\n{"name": "Bob", "age": 4}\n{"name": '
WORDS = "a b c d e f a b c d e f a b c"
DRAWN = {"temperature": 0.8, "seed": 1234}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "kind": {"enum": ["alpha", "beta gamma"]}},
    "required": ["name", "kind"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "thing", "schema": SCHEMA}}
CASES = [
    (CODE, {"max_new_tokens": 24, "logprobs": 2, "logprobs_of": "processed", "repetition_penalty": 1.1}),
    (CODE, {"max_new_tokens": 24, "stop": ["\n\ndef"]}),
    (LIST, {**DRAWN, "max_new_tokens": 16, "top_p": 0.9, "n": 2, "logprobs": 1}),
    (
        LIST,
        {**DRAWN, "max_new_tokens": 16, "xtc_probability": 0.5, "dry_multiplier": 0.8, "min_new_tokens": 9},
    ),
    (JSON, {"max_new_tokens": 20, "no_repeat_ngram_size": 4, "stop_token_ids": [30]}),
    (JSON, {**DRAWN, "max_new_tokens": 24, "min_p": 0.05, "response_format": FORMAT}),
    (WORDS, {"max_new_tokens": 5, "bad_words": [" d"], "logit_bias": {17: 2.0}, "prompt_logprobs": 1}),
    (WORDS, {"max_new_tokens": 16, "forced_tokens": {2: 30, 5: 31}, "ignore_eos": True}),
    (WORDS, {"max_new_tokens": 1}),
]
METHODS = [
    Speculation("prompt_lookup", max_draft_tokens=tokens, adaptive=adaptive)
    for tokens, adaptive in ((1, False), (4, False), (16, True), (64, False))
]
ROOMY = EngineConfig(max_seq_tokens=256)
TINY = EngineConfig(
    max_seq_tokens=128, cache_tokens=160, scheduler=SchedulerConfig(chunk_tokens=32, max_step_tokens=40)
)


@pytest.fixture(scope="module")
def folder():
    checkpoint_file("smollm2", fetch=True)
    return resolve_model("smollm2", config=load_runtime_config().config, precision="int4")


@pytest.fixture(scope="module")
def llm(folder):
    with LLM(folder, config=NATIVE, engine=ROOMY) as llm:
        yield llm


@pytest.fixture(scope="module")
def plain(llm):
    """What each case is without guessing."""
    return [told(llm.generate(prompt, **options(more))) for prompt, more in CASES]


def options(more):
    return {"temperature": 0, **more}


def told(completions):
    found = completions if isinstance(completions, list) else [completions]
    return [(c.token_ids, c.text, c.finish_reason, c.stop, c.logprobs, c.prompt_logprobs) for c in found]


def test_every_answer_alone_is_the_one_without_guessing(llm, plain):
    before = llm.stats().speculation.by_method["prompt_lookup"]
    usages = []
    for at, ((prompt, more), expected) in enumerate(zip(CASES, plain, strict=True)):
        for method in (METHODS[at % 4], METHODS[3]):
            found = llm.generate(prompt, speculation=method, **options(more))
            assert told(found) == expected, (prompt, more, method)
            usages += [c.usage for c in (found if isinstance(found, list) else [found])]
    after = llm.stats().speculation.by_method["prompt_lookup"]
    assert after.verified_tokens - before.verified_tokens == sum(u.draft_tokens for u in usages)
    accepted = sum(u.accepted_draft_tokens for u in usages)
    assert after.accepted_tokens - before.accepted_tokens == accepted > 5
    assert after.failures == 0


@pytest.mark.parametrize(
    ("engine", "in_process"), [(TINY, True), (ROOMY, False)], ids=["tiny cache", "process"]
)
def test_all_answers_together_come_in_pieces_of_the_ones_without_guessing(folder, plain, engine, in_process):
    async def answer(llm, at):
        prompt, more = CASES[at]
        method = None if at % 3 == 2 else METHODS[at % 4]
        pieces, completions = {}, {}
        async with contextlib.aclosing(llm.generate(prompt, speculation=method, **options(more))) as chunks:
            async for chunk in chunks:
                pieces[chunk.index] = pieces.get(chunk.index, "") + chunk.text
                if chunk.completion is not None:
                    completions[chunk.index] = chunk.completion
        assert all(pieces[index] == done.text for index, done in completions.items())
        return told([completions[index] for index in sorted(completions)])

    async def leave(llm):
        """Somebody who goes away in the middle of a guess."""
        asked = llm.generate(WORDS, speculation=METHODS[3], temperature=0, ignore_eos=True)
        async with contextlib.aclosing(asked) as chunks:
            async for chunk in chunks:
                if chunk.text:
                    break

    async def all_of_them():
        async with await AsyncLLM.load(folder, config=NATIVE, engine=engine, in_process=in_process) as llm:
            await llm.complete(JSON, max_new_tokens=1, response_format=FORMAT)  # its grammar is ready
            found = await asyncio.gather(*[answer(llm, at) for at in range(len(CASES))], leave(llm))
            return found[:-1], (await llm.stats()).speculation.by_method["prompt_lookup"]

    found, stats = asyncio.run(all_of_them())
    assert found == plain
    assert stats.accepted_tokens > 0


def test_a_conversation_that_goes_back_is_the_one_without_guessing(llm):
    def talk(method):
        settings = {"temperature": 0, "max_new_tokens": 20, "speculation": method}
        answers = []
        with llm.session(system="Repeat what you are told.") as session:
            for text in ("Say: red green blue red green blue", "Again."):
                answers.append(
                    "".join(chunk.text for chunk in session.send(text, options=GenerationOptions(**settings)))
                )
            answers += [message["content"] for message in session.messages]
        return answers

    assert talk(METHODS[2]) == talk(None)


def test_an_engine_that_guesses_by_itself_goes_to_the_end_of_the_context(folder, llm):
    asked = {"temperature": 0, "ignore_eos": True}
    every = EngineConfig(max_seq_tokens=48, speculation=METHODS[3])
    with LLM(folder, config=NATIVE, engine=every) as guessing:
        found = guessing.generate(WORDS, **asked)
    assert found.usage.accepted_draft_tokens > 0
    assert found.usage.prompt_tokens + found.usage.completion_tokens == 48
    assert found.finish_reason == "length"
    assert found.token_ids == llm.generate(WORDS, max_new_tokens=len(found.token_ids), **asked).token_ids


def test_a_deadline_ends_an_answer_with_what_is_right(llm):
    asked = {"temperature": 0, "ignore_eos": True, "max_new_tokens": 60}
    late = llm.generate(WORDS, deadline_s=0.15, speculation=METHODS[1], **asked)
    assert late.token_ids == llm.generate(WORDS, **asked).token_ids[: len(late.token_ids)]


def test_a_draft_model_that_is_the_model_is_right(folder):
    asked = {"temperature": 0, "max_new_tokens": 16}
    method = Speculation("draft_model", max_draft_tokens=4, adaptive=False)
    with LLM(folder, config=NATIVE, engine=ROOMY, draft_model=folder) as llm:
        plain, found = (llm.generate([CODE, LIST], speculation=each, **asked) for each in (None, method))
        assert told(found) == told(plain)
        assert all(c.usage.accepted_draft_tokens == c.usage.draft_tokens > 0 for c in found)
        grammar = {**DRAWN, "max_new_tokens": 32, "response_format": FORMAT, "speculation": method}
        first, again = (llm.generate(JSON, **grammar) for _ in range(2))
        assert told(first) == told(again)
        assert first.usage.draft_tokens > 0
