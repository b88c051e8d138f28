"""Token ids where texts may stand: prompts, texts that are judged, and texts that become vectors."""

import asyncio
import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_recipe import scripted_backend
from kernel_runs import fresh_rng
from onnxgen.errors import ContextLengthError, OptionError, TokenIdError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.prompts import prompts_of
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_model_folder import fake_backend, open_llm, with_added_bos, write_model_folder
from tiny_tokenizer import EOS, VOCAB_SIZE

ids = st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1)


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model")


@pytest.fixture
def tokenizer(folder):
    return Tokenizer.from_folder(folder)


@given(one=st.text() | ids)
def test_one_prompt_is_told_from_several(one):
    assert prompts_of(one) == ([one], True)
    if not isinstance(one, str):
        assert prompts_of(np.array(one, np.int64)) == ([one], True)
        assert prompts_of(iter(one)) == ([one], True)


@given(several=st.lists(st.text() | ids))
def test_several_may_be_mixed(several):
    assert prompts_of(several) == (several, False)
    assert prompts_of(tuple(several)) == (several, False)
    assert prompts_of(prompts_of(several)[0]) == (several, False)


def test_token_ids_are_answered_as_their_text(folder, tokenizer):
    asked = {"max_new_tokens": 5, "ignore_eos": True}
    llm = open_llm(folder, fake_backend())
    by_text, by_ids = llm.generate("the other", **asked), llm.generate(tokenizer.encode("the other"), **asked)
    assert by_text.token_ids == by_ids.token_ids
    assert by_ids.usage.prompt_tokens == len(tokenizer.encode("the other"))
    mixed = llm.generate(["the other", tokenizer.encode("abc")], **asked)
    assert [done.token_ids for done in mixed] == [by_text.token_ids, llm.generate("abc", **asked).token_ids]
    assert len(llm.generate([tokenizer.encode("abc")], n=2, **asked)) == 2


def test_token_ids_get_nothing_put_before_them(tmp_path):
    folder = with_added_bos(write_model_folder(tmp_path / "model"))
    llm = open_llm(folder, fake_backend())
    plain = llm.tokenizer.encode("abc")
    assert llm.generate("abc", max_new_tokens=1).usage.prompt_tokens == len(plain) + 1
    assert llm.generate(plain, max_new_tokens=1).usage.prompt_tokens == len(plain)
    # so the first token of an id list is judged by nothing, and that of a text by the token before it
    assert len(llm.score("abc").tokens) == len(plain)
    assert len(llm.score(plain).tokens) == len(plain) - 1


@pytest.mark.parametrize("wrong", [[1, VOCAB_SIZE], [-1], [[3, 4], [2**70, 4]]])
def test_ids_outside_the_vocabulary_are_refused_before_anything_runs(folder, wrong):
    llm = open_llm(folder, fake_backend())
    for ask in (llm.generate, llm.score):
        with pytest.raises(TokenIdError, match="prompt"):
            ask(wrong)
    assert llm.stats() is None


def test_no_ids_are_no_prompt(folder):
    llm = open_llm(folder, fake_backend())
    assert llm.generate([]) == []
    with pytest.raises(OptionError, match=r"prompts\[0\] has no tokens"):
        llm.generate([[]])


def test_token_ids_are_judged_as_their_text(folder, tokenizer):
    rng = fresh_rng()
    text, context = ("".join(rng.choice(list("abc the😀"), size=20)) for _ in range(2))
    text_ids, context_ids = tokenizer.encode(text), tokenizer.encode(context)
    llm = open_llm(folder, fake_backend())
    assert llm.score(text_ids) == llm.score(text)
    assert llm.perplexity(text_ids) == llm.perplexity(text)
    expected = llm.score(text, context=context, top_logprobs=2)
    for judged, before in ((text_ids, context), (text, context_ids), (text_ids, context_ids)):
        assert llm.score(judged, context=before, top_logprobs=2) == expected
        assert llm.score([judged, judged], context=before, top_logprobs=2) == [expected] * 2
        assert llm.score([judged, judged], context=[before, context], top_logprobs=2) == [expected] * 2


def test_tasks_of_a_loop_may_give_token_ids(folder, tokenizer):
    backend = scripted_backend(folder, {"a": "1 😀", "b": "안녕"}, max_context=128)
    one, two = tokenizer.encode("a"), tokenizer.encode("b")

    async def answers(llm):
        alone, both = await llm.complete(one), await llm.complete([one, two])
        return alone.text, [done.text for done in both], await llm.score(one + two), await llm.score("ab")

    with contextlib.closing(AsyncLLM(folder, backend=backend, config=RuntimeConfig())) as llm:
        alone, both, by_ids, by_text = asyncio.run(answers(llm))
    assert (alone, both) == ("1 😀", ["1 😀", "안녕"])
    assert by_ids == by_text


@pytest.mark.parametrize("n", [1, 3])
def test_probabilities_of_a_prompt_come_with_the_first_piece(folder, n):
    asked = {
        "prompt_logprobs": 2,
        "n": n,
        "temperature": 2.0,
        "seed": 3,
        "max_new_tokens": 6,
        "ignore_eos": True,
    }
    llm = open_llm(folder, fake_backend())
    chunks = list(llm.generate("the other", stream=True, **asked))
    told = [chunk for chunk in chunks if chunk.prompt_logprobs is not None]
    assert told == chunks[:1]
    [expected] = [c.completion.prompt_logprobs for c in chunks if c.completion and c.index == chunks[0].index]
    assert told[0].prompt_logprobs == expected
    # of a prompt that is only judged, the first piece is the only one
    [only] = llm.generate("the other", stream=True, prompt_logprobs=2, max_new_tokens=0)
    assert only.prompt_logprobs == expected == only.completion.prompt_logprobs


def test_the_token_that_ends_an_answer_is_told_of(folder, tokenizer):
    script = {tuple(tokenizer.encode("x")): tokenizer.encode("the other")}
    llm = open_llm(folder, fake_backend(continuations=script, eos_token_id=EOS))
    done = llm.generate("x", logprobs=1)
    assert done.end_logprob is not None
    assert (done.end_logprob.token_id, done.end_logprob.rank) == (EOS, 1)
    assert done.end_logprob.text_offset == len("the other")
    assert EOS not in [token.token_id for token in done.logprobs]
    assert llm.generate("x").end_logprob is None
    cut = llm.generate("x", logprobs=1, max_new_tokens=1)
    assert (cut.finish_reason, cut.end_logprob) == ("length", None)


def test_what_a_conversation_looks_like_to_the_model_can_be_read(folder):
    llm = open_llm(folder, fake_backend())
    messages = [{"role": "user", "content": "hi"}]
    prompt = llm.chat_prompt(messages)
    assert prompt.text == "<|bos|>[user]hi<|eos|>[assistant]"
    assert llm.chat(messages, max_new_tokens=1).usage.prompt_tokens == len(prompt.token_ids)


def test_prompts_may_be_limited(folder, tokenizer):
    llm = open_llm(folder, fake_backend())
    ids = tokenizer.encode("the other")
    assert llm.generate(ids, max_prompt_tokens=len(ids), max_new_tokens=1).token_ids
    with pytest.raises(
        ContextLengthError, match=f"a prompt of {len(ids)} tokens was given, and {len(ids) - 1} are"
    ):
        llm.generate("the other", max_prompt_tokens=len(ids) - 1)
    with pytest.raises(ContextLengthError, match="5 are allowed"):
        llm.chat([{"role": "user", "content": "hi"}], max_prompt_tokens=5)
    with pytest.raises(OptionError, match="max_prompt_tokens must be at least 1, got 0"):
        llm.generate("the other", max_prompt_tokens=0)
