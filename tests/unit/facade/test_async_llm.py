"""`AsyncLLM` on a scripted backend, with its engine in a thread and in a process of its own."""

import asyncio
import contextlib
import gc
import os
import signal
import threading
from functools import partial

import pytest

import scripted_core
from fake_recipe import CONTEXT, FakeRecipe, scripted_backend
from onnxgen.engine import client
from onnxgen.engine.client import HealthState
from onnxgen.engine.config import EngineConfig
from onnxgen.errors import (
    AdmissionError,
    BackendError,
    CapabilityError,
    ChatTemplateError,
    ConfigError,
    ContextLengthError,
    EngineDeadError,
    ModelFileError,
    ModelNotFoundError,
    OptionError,
    StateError,
)
from onnxgen.facade import served_model
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.llm import LLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.scheduler.config import SchedulerConfig
from tiny_model_folder import write_model_folder

WAIT_S = 60.0
ANSWERS = {
    "the other": " thing 😀",
    "a": "1 😀 the thing",
    "b": "안녕",
    "c": "",
    "stops": "one two three four",
    "<|bos|>[user]hi<|eos|>[assistant]": "hello",
}
ENGINE = EngineConfig(cache_tokens=2 * CONTEXT, scheduler=SchedulerConfig(max_seqs=8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model_folder(tmp_path_factory.mktemp("async") / "model", context=CONTEXT)


@contextlib.contextmanager
def opened(folder, *, in_process=True, **options):
    options = {"engine": ENGINE, "config": RuntimeConfig(cache_dir=folder.parent / "cache"), **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_model, "ModelRecipe", partial(FakeRecipe, answers=tuple(ANSWERS.items())))
        if in_process:
            options.setdefault("backend", scripted_backend(folder, ANSWERS))
        llm = AsyncLLM(folder, in_process=in_process, **options)
    with contextlib.closing(llm):
        yield llm


@pytest.fixture(scope="module", params=[True, False], ids=["thread", "process"])
def llm(request, folder):
    """Shared by tests, each of which has a loop of its own."""
    with opened(folder, in_process=request.param) as llm:
        yield llm


def run(work):
    """Run a coroutine in a loop of its own, not for ever."""

    async def limited():
        async with asyncio.timeout(WAIT_S):
            return await work

    return asyncio.run(limited())


async def pieces(chunks):
    return [chunk async for chunk in chunks]


async def quiet(llm):
    """Counts of the engine, once nothing is waiting or running in it."""
    stats = await llm.stats()
    assert (stats.running, stats.waiting) == (0, 0)
    return stats


def test_text_is_continued_until_eos(llm):
    done = run(llm.complete("the other"))
    assert (done.text, done.finish_reason) == (" thing 😀", "eos")
    assert done.usage.completion_tokens == len(done.token_ids)
    assert done.timings.load_s == llm.load_s
    assert done.timings.ttft_s > 0


def test_pieces_of_several_prompts_add_up_to_completions(llm):
    chunks = run(pieces(llm.generate(["a", "b", "c"])))
    for index, answer in enumerate(["1 😀 the thing", "안녕", ""]):
        mine = [chunk for chunk in chunks if chunk.index == index]
        assert "".join(chunk.text for chunk in mine) == answer
        assert [chunk.finish_reason for chunk in mine if chunk.finish_reason] == ["eos"]
        assert mine[-1].completion.text == answer
        assert tuple(t for chunk in mine for t in chunk.token_ids) == mine[-1].completion.token_ids
    assert run(llm.complete([])) == []


def test_answers_are_those_of_llm(llm, folder):
    asked = {"max_new_tokens": 12, "temperature": 1.5, "seed": 7, "ignore_eos": True}
    prompts = ["one prompt", "another", "a third one"]
    config = RuntimeConfig(cache_dir=folder.parent / "cache")
    with LLM(folder, config=config, engine=ENGINE, backend=scripted_backend(folder)) as sync:
        expected = [done.token_ids for done in sync.generate(prompts, **asked)]
    assert [done.token_ids for done in run(llm.complete(prompts, **asked))] == expected


def test_samples_have_indices_and_streams_of_their_own(llm):
    asked = {"n": 3, "temperature": 2.0, "seed": 3, "max_new_tokens": 16, "ignore_eos": True}
    first = run(llm.complete(["x", "yz"], **asked))
    again = run(llm.complete(["x", "yz"], **asked))
    assert [done.token_ids for done in first] == [done.token_ids for done in again]
    assert len({done.token_ids for done in first}) == 6
    assert [done.usage.prompt_tokens for done in first] == [1, 1, 1, 2, 2, 2]
    assert len(run(llm.complete("x", **asked))) == 3
    chunks = run(pieces(llm.generate(["x", "yz"], **asked)))
    assert [c.index for c in chunks if c.index != chunks[0].index], "they come in turns"
    assert {c.index: c.completion.token_ids for c in chunks if c.completion} == {
        i: done.token_ids for i, done in enumerate(first)
    }


def test_chat_goes_through_the_template(llm):
    messages = [{"role": "user", "content": "hi"}]
    assert llm.has_chat_template
    assert run(llm.complete_chat(messages)).text == "hello"
    assert [done.text for done in run(llm.complete_chat(messages, n=2))] == ["hello", "hello"]
    assert "".join(chunk.text for chunk in run(pieces(llm.chat(messages)))) == "hello"


def test_a_stop_text_ends_the_request_in_the_engine(llm):
    async def work():
        before = (await quiet(llm)).generated_tokens
        chunks = await pieces(llm.generate("stops", stop=" three", max_new_tokens=2000, ignore_eos=True))
        return chunks, (await quiet(llm)).generated_tokens - before

    chunks, generated = run(work())
    assert "".join(chunk.text for chunk in chunks) == "one two"
    done = chunks[-1].completion
    assert (done.text, done.finish_reason, chunks[-1].finish_reason) == ("one two", "stop", "stop")
    assert tuple(t for chunk in chunks for t in chunk.token_ids) == done.token_ids
    assert generated < 1000


def test_a_stop_text_of_one_answer_leaves_the_others_alone(llm):
    done = run(llm.complete(["stops", "a"], stop="two"))
    assert [d.text for d in done] == ["one ", "1 😀 the thing"]
    assert [d.finish_reason for d in done] == ["stop", "eos"]


def test_cached_tokens_are_told_also_with_a_stop_text(llm):
    prompt = "a long beginning that fills several blocks of the cache, and stops"
    run(llm.complete(prompt, max_new_tokens=1))
    done = run(llm.complete(prompt, max_new_tokens=5))
    expected = done.usage.cached_tokens
    assert expected > 16
    stop = done.text[0]
    stopped = run(llm.complete(prompt, max_new_tokens=5, stop=stop))
    assert stopped.finish_reason == "stop"
    assert stopped.usage.cached_tokens == expected


def test_mistakes_are_told_before_anything_is_submitted(llm):
    with pytest.raises(OptionError, match="temperatur"):
        llm.generate("x", temperatur=1)
    with pytest.raises(OptionError, match=r"prompts\[1\] must be a text or token ids"):
        llm.generate(["x", 7])
    with pytest.raises(OptionError, match="n must be"):
        llm.generate("x", n=0)
    with pytest.raises(ContextLengthError, match=str(CONTEXT)):
        llm.generate("x", max_new_tokens=CONTEXT)
    with pytest.raises(OptionError, match="template_variables"):
        llm.chat([{"role": "user", "content": "hi"}], template_variables=3)


def test_nothing_is_submitted_before_the_first_piece_is_asked_for(llm):
    async def work():
        before = (await quiet(llm)).submitted
        never = llm.generate("x")
        closed = llm.generate("x")
        await closed.aclose()
        after = (await quiet(llm)).submitted
        await never.aclose()
        return after - before

    assert run(work()) == 0


def test_closing_a_generator_ends_its_requests(llm):
    async def work():
        before = (await quiet(llm)).finished.get("cancelled", 0)
        chunks = llm.generate(["x", "y"], n=2, ignore_eos=True)
        await anext(chunks)
        assert (await llm.stats()).running >= 1
        await chunks.aclose()
        return (await quiet(llm)).finished["cancelled"] - before

    assert run(work()) == 4


def test_a_generator_that_is_dropped_ends_its_requests(llm):
    async def work():
        async for _ in llm.generate("x", ignore_eos=True):
            break
        gc.collect()
        await asyncio.sleep(0)  # its end is a task of the loop
        await asyncio.sleep(0)
        await quiet(llm)

    run(work())


def test_cancelling_a_task_ends_its_requests(llm):
    async def work():
        begun = asyncio.Event()

        async def listen():
            async for _ in llm.generate("x", ignore_eos=True):
                begun.set()

        tasks = [asyncio.create_task(listen()) for _ in range(3)]
        tasks.append(asyncio.create_task(llm.complete("y", ignore_eos=True)))
        await begun.wait()
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        await quiet(llm)
        assert (await llm.complete("b")).text == "안녕"

    run(work())


def test_a_timeout_ends_the_request(llm):
    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await llm.complete("x", ignore_eos=True)
        await quiet(llm)

    run(work())


def test_a_deadline_ends_the_answer_with_what_it_has(llm):
    done = run(llm.complete("x", ignore_eos=True, deadline_s=0.05))
    assert done.finish_reason == "deadline"


def test_many_tasks_are_answered_together(llm):
    async def work():
        async def one(i):
            return (await llm.complete(f"question {i}", max_new_tokens=20, ignore_eos=True)).token_ids

        together = await asyncio.gather(*(one(i) for i in range(20)))
        alone = [await one(i) for i in range(20)]
        assert together == alone
        await quiet(llm)

    run(work())


def test_a_refusal_of_the_engine_is_raised_where_pieces_are_taken(llm):
    async def work():
        await llm.reconfigure(SchedulerConfig(max_seqs=8, max_waiting=1))
        with pytest.raises(AdmissionError, match="wait"):
            await llm.complete(["x"] * 30, ignore_eos=True)
        await quiet(llm)
        await llm.reconfigure(ENGINE.scheduler)
        assert (await llm.complete("b")).text == "안녕"

    run(work())


def test_another_loop_may_not_use_it_before_the_first_is_closed(llm):
    async def work():
        chunks = llm.generate("x", ignore_eos=True)
        await anext(chunks)
        seen = []

        def elsewhere():
            try:
                asyncio.run(llm.complete("y"))
            except StateError as error:
                seen.append(str(error))

        await asyncio.to_thread(elsewhere)
        assert "another event loop" in seen[0]
        await anext(chunks)
        await chunks.aclose()

    run(work())
    assert run(llm.complete("b")).text == "안녕"


def test_what_a_closed_loop_left_behind_is_ended(llm):
    loop = asyncio.new_event_loop()
    chunks = llm.generate("x", ignore_eos=True)
    loop.run_until_complete(anext(chunks))
    loop.close()
    run(quiet_soon(llm))


def test_nothing_is_kept_of_requests_that_ended(llm):
    async def work():
        for i in range(40):
            chunks = llm.generate([f"q {i}", "r"], n=2, max_new_tokens=6 + i % 5, stop="o", ignore_eos=True)
            if i % 3 == 0:
                await anext(chunks, None)
                await chunks.aclose()
            elif i % 3 == 1:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.001):
                        await pieces(chunks)
            else:
                await pieces(chunks)
        await quiet_soon(llm)
        assert llm._loop._bound._places == {}
        assert llm._client._life._answers == {}

    run(work())


async def quiet_soon(llm):
    async with asyncio.timeout(WAIT_S):
        while llm.num_pending:
            await asyncio.sleep(0.01)
    await quiet(llm)


def test_the_death_of_the_engines_process_is_told_to_all_and_restart_works(folder):
    async def work(llm):
        begun = asyncio.Barrier(4)

        async def listen(prompt):
            first = True
            async for _ in llm.generate(prompt, ignore_eos=True):
                if first:
                    await begun.wait()
                first = False

        tasks = [asyncio.create_task(listen(p)) for p in ("x", "y", "z")]
        await begun.wait()
        llm._client._link._process.send_signal(signal.SIGKILL)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ended] == [EngineDeadError] * 3
        assert len({id(end) for end in ended}) == 3
        assert "SIGKILL" in str(ended[0])
        assert llm.health.state is HealthState.FAILED
        with pytest.raises(EngineDeadError):
            await llm.complete("b")
        await llm.restart()
        assert (await llm.complete("b")).text == "안녕"

    with opened(folder, in_process=False) as llm:
        run(work(llm))


def test_scores_are_those_of_llm(llm, folder):
    with LLM(folder, config=llm.config, backend=scripted_backend(folder)) as plain:
        assert run(llm.score("some text", top_logprobs=2)) == plain.score("some text", top_logprobs=2)
        texts = ["one", "another one"]
        asked = {"context": ["the", "or"], "priority": 1, "tenant": "t", "salt": "s"}
        assert run(llm.score(texts, **asked)) == plain.score(texts, context=["the", "or"])
    with pytest.raises(OptionError, match="1 contexts were given for 2 texts"):
        run(llm.score(texts, context=["the"]))


def test_gaps_need_a_model_that_was_made_for_them(llm):
    with pytest.raises(CapabilityError, match="filling in the middle"):
        llm.infill("a", "b")


def test_beams_are_searched_in_this_process_only(folder):
    options = {"num_beams": 3, "n": 2, "max_new_tokens": 4}
    with (
        opened(folder) as llm,
        LLM(folder, config=llm.config, backend=scripted_backend(folder, ANSWERS)) as plain,
    ):
        found = run(llm.complete(["a", "x"], **options))
        expected = plain.generate(["a", "x"], **options)
        assert [(a.token_ids, a.score) for a in found] == [(a.token_ids, a.score) for a in expected]
    with (
        opened(folder, in_process=False) as llm,
        pytest.raises(CapabilityError, match="in_process=True, or num_beams=1"),
    ):
        run(llm.complete("a", **options))


def test_closing_it_ends_its_streams(folder):
    async def work():
        with opened(folder) as llm:
            async with llm:
                chunks = llm.generate("x", ignore_eos=True)
                await anext(chunks)
            with pytest.raises(StateError, match="closed"):
                await pieces(chunks)
            with pytest.raises(StateError, match="closed"):
                await llm.complete("x")
            llm.close()
            assert llm.health.state is HealthState.CLOSED

    run(work())


def test_a_failing_step_ends_the_request_at_fault_with_its_error(folder):
    backend = scripted_backend(folder, fail_steps=range(2, 10))

    async def work():
        with opened(folder, backend=backend) as llm:
            with pytest.raises(BackendError, match="the script says so"):
                await llm.complete("x", ignore_eos=True)
            assert llm.health.state is HealthState.HEALTHY

    run(work())


def test_a_backend_cannot_be_given_to_another_process(folder):
    with pytest.raises(ConfigError, match="in_process=False"):
        AsyncLLM(folder, backend=scripted_backend(folder), in_process=False)


def test_a_model_that_cannot_be_loaded_is_told_and_leaves_nothing(folder, monkeypatch):
    monkeypatch.setattr(served_model, "ModelRecipe", lambda *_, **__: scripted_core.is_no_model)
    config = RuntimeConfig(cache_dir=folder.parent / "cache")
    before = threading.active_count()
    with pytest.raises(ModelFileError):
        AsyncLLM(folder, config=config, in_process=False)
    assert threading.active_count() == before


@pytest.mark.parametrize("in_process", [True, False])
def test_loading_does_not_block_the_loop_and_can_be_cancelled(folder, tmp_path, monkeypatch, in_process):
    os.mkfifo(tmp_path / "pid")
    forever = partial(scripted_core.loads_forever, str(tmp_path / "pid"))
    monkeypatch.setattr(served_model, "ModelRecipe", lambda *_, **__: forever)
    monkeypatch.setattr(served_model, "in_process", lambda _: client.in_process(forever))
    config = RuntimeConfig(cache_dir=folder.parent / "cache")
    backend = {"backend": scripted_backend(folder)} if in_process else {}

    async def work():
        loading = asyncio.create_task(AsyncLLM.load(folder, config=config, in_process=in_process, **backend))
        pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        return pid

    pid = run(work())
    if not in_process:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_loading_in_a_loop_gives_what_the_constructor_gives(folder):
    config = RuntimeConfig(cache_dir=folder.parent / "cache")

    async def work():
        backend = scripted_backend(folder, ANSWERS)
        async with await AsyncLLM.load(folder, config=config, engine=ENGINE, backend=backend) as llm:
            assert (await llm.complete("b")).text == "안녕"
        with pytest.raises(ConfigError, match="in_process=False"):
            await AsyncLLM.load(folder, backend=backend, in_process=False)
        with pytest.raises(ModelNotFoundError):
            await AsyncLLM.load(folder / "nothing", config=config)

    run(work())


def test_a_model_without_a_template_says_so(tmp_path):
    folder = write_model_folder(tmp_path / "model", context=CONTEXT)
    settings = folder / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace("chat_template", "no_chat_template"))
    with opened(folder) as llm:
        assert not llm.has_chat_template
        with pytest.raises(ChatTemplateError, match="has no chat template"):
            llm.chat([{"role": "user", "content": "x"}])


def test_a_failure_of_the_engine_is_waited_for_and_says_why(folder):
    async def scenario():
        with opened(folder, in_process=False) as llm:
            waiting = asyncio.create_task(llm.failure())
            dropped = asyncio.create_task(llm.failure())
            await asyncio.sleep(0)
            dropped.cancel()  # does not end the wait of others
            os.kill(llm.engine_pid, signal.SIGKILL)
            reason = await waiting
            assert "SIGKILL" in reason
            assert llm.health.state is HealthState.FAILED
            await llm.restart()
            assert llm.health.state is HealthState.HEALTHY
            again = asyncio.create_task(llm.failure())
            await asyncio.sleep(0)
            assert not again.done()
        with pytest.raises(StateError, match="closed"):
            await again

    run(scenario())


def test_a_chat_template_of_ones_own_is_used(folder, tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("{{ messages[0].content }}", encoding="utf-8")

    async def scenario():
        with opened(folder, chat_template=path) as llm:
            return await llm.complete_chat([{"role": "user", "content": "a"}])

    assert run(scenario()).text == ANSWERS["a"]
    with (
        pytest.raises(ConfigError, match=r"none\.jinja cannot be read"),
        opened(folder, chat_template=tmp_path / "none.jinja"),
    ):
        pass
