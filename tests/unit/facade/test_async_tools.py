"""`AsyncLLM` with grammars and tools, its engine in a thread."""

import asyncio
import contextlib
import threading

import pytest

from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.compiler import GrammarCompiler
from onnxgen.errors import ContextLengthError, GrammarError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from tool_models import CONTEXT, TOOLS, call_text, tool_backend, user, write_tool_folder

ANSWERS = [([user("hi")], f"<think>hm</think>Well.\n{call_text('time')}"), ([user("a")], "hello")]
BROKEN = {"type": "regex", "regex": "(?=a)b"}


@pytest.fixture
def llm(tmp_path):
    folder = write_tool_folder(tmp_path / "model")
    llm = AsyncLLM(
        folder,
        engine=EngineConfig(cache_tokens=CONTEXT),
        config=RuntimeConfig(cache_dir=tmp_path / "cache"),
        backend=tool_backend(folder, ANSWERS),
    )
    with contextlib.closing(llm):
        yield llm


def run(work):
    """Run a coroutine in a loop of its own, not for ever."""

    async def limited():
        async with asyncio.timeout(120):
            return await work()

    return asyncio.run(limited())


async def pieces(chunks):
    return [chunk async for chunk in chunks]


def plain(llm):
    return pieces(llm.chat([user("a")], tools=TOOLS, tool_choice="none"))


def test_calls_come_as_soon_as_they_are_whole(llm):
    heard = run(lambda: pieces(llm.chat([user("hi")], tools=TOOLS)))
    done = heard[-1].completion
    assert (done.reasoning, done.text, done.finish_reason) == ("hm", "Well.", "tool_calls")
    assert [call.name for call in done.tool_calls] == ["time"]
    assert [call for chunk in heard for call in chunk.tool_calls] == list(done.tool_calls)
    assert "".join(chunk.text for chunk in heard) == "Well."


def test_a_grammar_error_comes_with_the_first_piece_and_harms_nobody(llm):
    async def work():
        broken = llm.chat([user("a")], response_format=BROKEN)  # says nothing yet
        other = asyncio.create_task(plain(llm))
        with pytest.raises(GrammarError):
            await anext(broken)
        assert (await other)[-1].completion.text == "hello"
        assert (await llm.stats()).running == 0

    run(work)
    assert run(lambda: plain(llm))[-1].completion.text == "hello"


def test_others_are_answered_while_a_grammar_is_compiled(llm, monkeypatch):
    compile, asked, ready = GrammarCompiler.compile, threading.Event(), threading.Event()

    def slow(self, grammar):
        asked.set()
        assert ready.wait(120)
        return compile(self, grammar)

    monkeypatch.setattr(GrammarCompiler, "compile", slow)

    async def work():
        waits = asyncio.create_task(
            pieces(llm.chat([user("a")], response_format={"type": "choice", "choice": ["hello"]}))
        )
        while not asked.is_set():
            await asyncio.sleep(0.001)
        assert (await plain(llm))[-1].completion.text == "hello"
        assert not waits.done()
        ready.set()
        return await waits

    assert run(work)[-1].completion.text == "hello"


def test_tokens_of_reasoning_are_counted(llm):
    thought = run(lambda: pieces(llm.chat([user("hi")], tools=TOOLS)))[-1].completion.usage
    marks = len(llm.tokenizer.encode("hm")) + 1  # the last token of the opening mark, where it is several
    assert thought.reasoning_tokens == marks + len(llm.tokenizer.encode("</think>"))
    assert run(lambda: plain(llm))[-1].completion.usage.reasoning_tokens == 0


def test_a_length_that_may_be_capped_is_no_reason_to_refuse(llm):
    asked = {"max_new_tokens": 100 * CONTEXT, "ignore_eos": True}
    with pytest.raises(ContextLengthError):
        llm.chat([user("a")], **asked)
    long = [user("a" * (CONTEXT - 100))]
    done = run(lambda: pieces(llm.chat(long, allow_cap=True, **asked)))[-1].completion
    assert done.finish_reason == "length"
    assert done.usage.prompt_tokens + done.usage.completion_tokens == CONTEXT
