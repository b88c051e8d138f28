"""Names of requests, how long they waited, and the engine from inside, through `AsyncLLM`."""

import asyncio

import pytest

from onnxgen.engine.config import EngineConfig
from onnxgen.errors import OptionError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.scheduler.config import SchedulerConfig
from tiny_model_folder import fake_backend, write_model_folder


@pytest.fixture
def folder(tmp_path):
    return write_model_folder(tmp_path / "model", context=512)


def _with_llm(folder, work, *, seqs=1):
    async def run():
        async with AsyncLLM(
            folder,
            config=RuntimeConfig(cache_dir=folder.parent / "cache"),
            backend=fake_backend(block_size=16, max_context=512),
            engine=EngineConfig(scheduler=SchedulerConfig(max_seqs=seqs)),
        ) as llm:
            async with asyncio.timeout(60):
                return await work(llm)

    return asyncio.run(run())


def test_sequences_have_the_names_that_callers_give(folder):
    async def work(llm):
        first = llm.generate("hello", name="req-a", max_new_tokens=400, ignore_eos=True)
        second = llm.generate(["x", "y"], name="req-b", max_new_tokens=3)
        await anext(first)
        waiting = asyncio.ensure_future(anext(second))
        while len(found := (await llm.view(timeout_s=30)).sequences) < 3:
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        await first.aclose()
        return [(s.name, s.state) for s in found]

    assert _with_llm(folder, work) == [("req-a", "decode"), ("req-b", "waiting"), ("req-b", "waiting")]


@pytest.mark.parametrize("stop", [(), ("e", "a", "o", " ")])
def test_answers_say_how_long_they_waited(folder, stop):
    async def work(llm):
        one, other = await asyncio.gather(
            *(
                llm.complete(text, max_new_tokens=40, ignore_eos=True, stop=stop)
                for text in ("hello", "there")
            )
        )
        return one, other

    for completion in _with_llm(folder, work):
        timings = completion.timings
        assert timings.queue_s is not None
        assert timings.ttft_s is not None
        assert 0 <= timings.queue_s <= timings.ttft_s


def test_a_name_that_is_no_text_is_refused(folder):
    async def work(llm):
        with pytest.raises(OptionError, match="name must be a text"):
            await llm.complete("hello", name=7)

    _with_llm(folder, work)
