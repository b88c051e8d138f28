"""`Answers`: the pieces of a request, for as long as its client is there; whatever happens, nothing stays behind."""

import asyncio
import contextlib
import threading
import types

import pytest

from chat_server import WAIT_S, HeardObserver
from onnxgen.engine.client import Health, HealthState
from onnxgen.errors import BackendError, EngineDeadError, OptionError, QueueFullError
from onnxgen.facade.results import Chunk, Completion, Timings, Usage
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.answers import INLINE_SIZE, open_answers
from onnxgen.server.generation.client_watch import ClientLeftError
from onnxgen.server.settings import ServerSettings

DONE = Completion("ab", (1, 2), "eos", Usage(3, 2, 0), Timings(None, None, None, None))
CHUNKS = [Chunk("a", (1,)), Chunk("b", (2,), 0, "eos", DONE)]


class Client:
    """A channel whose client leaves when it is told to."""

    def __init__(self):
        self.left = asyncio.Event()
        self.state = types.SimpleNamespace(request_id="r1", tenant="ann")

    async def receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}


class World:
    """A model whose answers are given by the test, and what became of them."""

    def __init__(self, **settings):
        self.client, self.observer = Client(), HeardObserver()
        self.closed = 0
        self.health = Health(HealthState.HEALTHY)
        self.draining = False
        self.settings = ServerSettings(**settings)
        self.model = types.SimpleNamespace(id="m", text=self)

    async def open(self, chunks, *, prompt_size=1, ask=None, **options):
        async def given(llm):
            assert llm is self
            try:
                for chunk in chunks:
                    if isinstance(chunk, BaseException):
                        raise chunk
                    if chunk is None:
                        await asyncio.Event().wait()
                    yield chunk
            finally:
                self.closed += 1

        options = {"endpoint": "e", "stream": True, **options}
        return await open_answers(
            self.client, self, self.model, ask or given, prompt_size=prompt_size, **options
        )

    def check(self, *ends, closed=1):
        """How the request ended; nothing of it is left but this task."""
        assert self.observer.ends[:1] == list(ends)
        assert self.closed == closed


def run(work):
    """Run a test in a loop of its own; it leaves no task behind."""

    async def limited():
        async with asyncio.timeout(WAIT_S):
            await work()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(limited())


def test_pieces_come_in_order_and_are_observed():
    async def work():
        world = World()
        answers = await world.open(CHUNKS, n=2)
        assert [chunk async for chunk in answers] == CHUNKS == world.observer.pieces
        await answers.aclose()
        await answers.aclose()
        world.check(("ok", 200))
        assert world.observer.begun == [
            {"request_id": "r1", "endpoint": "e", "model": "m", "stream": True, "tenant": "ann", "n": 2}
        ]

    run(work)


def test_whole_answers_come_by_index():
    async def work():
        world = World()
        other = Chunk("", (), 1, "eos", DONE)
        answers = await world.open([other, *CHUNKS])
        assert await answers.collect() == [DONE, DONE]
        await answers.aclose()
        world.check(("ok", 200))

    run(work)


@pytest.mark.parametrize("size", [INLINE_SIZE, INLINE_SIZE + 1])
def test_only_long_prompts_are_made_ready_in_a_thread(size):
    async def work():
        world, seen = World(), []

        def ask(llm):
            seen.append(threading.current_thread() is threading.main_thread())
            raise OptionError("wrong")

        with pytest.raises(OptionError):
            await world.open([], ask=ask, prompt_size=size)
        assert seen == [size <= INLINE_SIZE]
        world.check(("rejected", 400), closed=0)

    run(work)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (QueueFullError("full"), ("rejected", 429)),
        (BackendError("broke"), ("error", 500)),
        (KeyError("bug"), ("error", 500)),
    ],
)
@pytest.mark.parametrize("after", [0, 1])
def test_what_the_engine_says_is_raised_by_whoever_asks_first(error, end, after):
    async def work():
        world = World()
        answers = await world.open([*CHUNKS[:after], error])
        with pytest.raises(type(error)):
            await answers.first()
            await answers.collect()
        await answers.aclose()
        world.check(end)

    run(work)


def test_the_first_piece_is_waited_for_and_not_lost():
    async def work():
        world = World(stream_start_s=60)
        answers = await world.open(CHUNKS)
        await answers.first()
        assert world.observer.pieces == []
        assert [chunk async for chunk in answers] == CHUNKS
        await answers.aclose()
        world.check(("ok", 200))

    run(work)


def test_an_answer_of_nothing_has_no_first_piece():
    async def work():
        answers = await World().open([])
        await answers.first()
        assert [chunk async for chunk in answers] == []
        await answers.aclose()

    run(work)


def test_a_stream_begins_although_nothing_came():
    async def work():
        world = World(stream_start_s=0.01)
        answers = await world.open([None])
        await answers.first()
        await answers.aclose()
        world.check(("cancelled", 499))

    run(work)


@pytest.mark.parametrize("wait", ["first", "collect", "late"])
def test_a_client_that_leaves_ends_everything(wait):
    async def work():
        world = World(stream_start_s=0.01 if wait == "late" else 60)
        answers = await world.open([None])
        asyncio.get_running_loop().call_later(0.05, world.client.left.set)
        if wait == "late":
            await answers.first()
        with pytest.raises(ClientLeftError):
            await (answers.first() if wait == "first" else answers.collect())
        await answers.aclose()
        world.check(("cancelled", 499))

    run(work)


def test_a_client_that_leaves_while_its_prompt_is_made_ready_asks_nothing():
    async def work():
        world, go = World(), threading.Event()

        def ask(llm):
            assert go.wait(WAIT_S)
            return world.answer()

        asyncio.get_running_loop().call_later(0.05, world.client.left.set)
        try:
            with pytest.raises(ClientLeftError):
                await world.open([], ask=ask, prompt_size=INLINE_SIZE + 1)
        finally:
            go.set()
        world.check(("cancelled", 499), closed=0)

    run(work)


@pytest.mark.parametrize("state", [HealthState.FAILED, HealthState.STARTING])
@pytest.mark.parametrize("size", [1, INLINE_SIZE + 1])
def test_who_asked_an_engine_that_died_meanwhile_is_told_so(state, size):
    async def work():
        world = World()

        def ask(llm):
            world.health = Health(state)
            return _unasked()

        with pytest.raises(EngineDeadError):
            await world.open([], ask=ask, prompt_size=size)
        world.check(("error", 503), closed=0)

    async def _unasked():
        raise AssertionError("nothing is asked of an engine that died")
        yield

    run(work)


def test_a_cancelled_task_ends_everything():
    async def work():
        world = World()

        async def serve():
            answers = await world.open([CHUNKS[0], None])
            async with contextlib.aclosing(answers):
                await answers.collect()

        task = asyncio.create_task(serve())
        while not world.observer.pieces:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.check(("cancelled", 499))

    run(work)


def test_answers_that_nobody_asked_for_end_when_they_are_closed():
    async def work():
        world = World()
        answers = await world.open(CHUNKS)
        await answers.aclose()
        world.check(("cancelled", 499), closed=0)

    run(work)


def test_answers_that_are_long_overdue_are_given_up(monkeypatch):
    monkeypatch.setattr("onnxgen.server.generation.answers._LATE_S", 0.01)

    async def work():
        world = World(request_timeout_s=0.01)
        answers = await world.open([None])
        with pytest.raises(ApiError, match="no answer within"):
            await answers.collect()
        await answers.aclose()
        world.check(("timeout", 504))

    run(work)


def test_a_server_that_is_about_to_end_takes_nothing():
    async def work():
        world = World()
        world.draining = True
        with pytest.raises(ApiError, match="about to end") as caught:
            await world.open(CHUNKS)
        assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "1")
        world.check(("error", 503), closed=0)

    run(work)


def test_listeners_hear_every_piece():
    async def work():
        heard = []
        answers = await World().open(CHUNKS)
        answers.listen(heard.append)
        await answers.collect()
        await answers.aclose()
        assert heard == CHUNKS

    run(work)
