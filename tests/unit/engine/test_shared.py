"""`SharedEngine`: threads that wait drive one engine for all."""

import contextlib
import gc
import os
import threading
import time
from contextlib import closing

import pytest

from list_grammars import ListCompiler, lists
from onnxgen.backends.fake import FakeBackend
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.core import EngineCore
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.shared import SharedEngine
from onnxgen.errors import BackendError, OptionError, StateError, TokenIdError


def shared(backend=None):
    backend = backend or FakeBackend(block_size=4, max_context=64)
    return SharedEngine(lambda: closing(EngineCore(backend, EngineConfig(cache_tokens=512))))


class Recipe:
    """Makes engines, and writes down where and when they are left."""

    def __init__(self, *, fails=()):
        self.told, self.made, self.fails = [], 0, set(fails)

    def __call__(self):
        return self._open()

    @contextlib.contextmanager
    def _open(self):
        self.made += 1
        if "making" in self.fails:
            raise BackendError("no memory")
        core = EngineCore(FakeBackend(block_size=4, max_context=64), EngineConfig(cache_tokens=512))
        try:
            yield core
        finally:
            self.told.append(os.getpid())
            core.close()
            if "leaving" in self.fails:
                raise BackendError("no way out")


def request(first, count=10):
    return EngineRequest([first, 1, 2], max_new_tokens=count, ignore_eos=True)


def tokens(engine, request_id):
    found = []
    while True:
        for event in engine.take([request_id]):
            if event.token_id is not None:
                found.append(event.token_id)
            if event.finish_reason is not None:
                engine.drop([request_id])
                return found


def test_threads_get_what_each_gets_alone():
    alone = {}
    for i in range(8):
        engine = shared()
        alone[i] = tokens(engine, engine.submit(request(i, 5 + i)))
    engine, found = shared(), {}

    def ask(i):
        found[i] = tokens(engine, engine.submit(request(i, 5 + i)))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == alone
    assert engine.stats().running == 0


def test_one_that_drives_fills_what_others_take_later():
    engine = shared()
    slow, fast = engine.submit(request(1)), engine.submit(request(2))
    tokens(engine, fast)
    assert len(engine.take([slow])) == 10


def test_what_nobody_waits_for_ends():
    engine = shared()
    left, other = engine.submit(request(1, 50)), engine.submit(request(2))
    engine.take([left])
    engine.drop([left])
    tokens(engine, other)
    assert engine.stats().finished == {"cancelled": 1, "length": 1}
    with pytest.raises(StateError, match="have ended"):
        engine.take([left])


def test_dropping_never_waits_for_a_step():
    """A finalizer may run in the very thread that is in a step, which holds the lock."""
    engine = None
    going = []

    class Collecting(FakeBackend):
        def execute(self, step, cache):
            if going:
                engine.drop([going.pop()])
                gc.collect()
            return super().execute(step, cache)

    engine = shared(Collecting(block_size=4))
    dropped, other = engine.submit(request(1, 50)), engine.submit(request(2))
    going.append(dropped)
    assert len(tokens(engine, other)) == 10
    assert engine.stats().finished == {"cancelled": 1, "length": 1}


def test_a_stop_ends_a_request_before_the_next_step():
    backend = FakeBackend(block_size=4, max_context=64)
    engine = shared(backend)
    pending = engine.submit(request(1, 50))
    engine.take([pending])
    engine.cancel(pending, reason="stop")
    (event,) = engine.take([pending])
    assert event.finish_reason == "stop"
    assert backend.num_steps == 1


def test_refusals_are_raised_and_harm_nobody():
    engine = shared()
    pending = engine.submit(request(1))
    with pytest.raises(OptionError):
        engine.submit(EngineRequest([]))
    with pytest.raises(TokenIdError):
        engine.submit(EngineRequest([99]))
    assert len(tokens(engine, pending)) == 10


def test_closing_ends_everything():
    engine = shared()
    pending = engine.submit(request(1))
    engine.close()
    engine.close()
    with pytest.raises(StateError):
        engine.take([pending])
    with pytest.raises(StateError, match="closed"):
        engine.submit(request(1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_begins_anew():
    engine = shared()
    expected = tokens(engine, engine.submit(request(1)))
    pending = engine.submit(request(2))
    engine.take([pending])
    child = os.fork()
    if child == 0:
        try:
            right = tokens(engine, engine.submit(request(1))) == expected
            with pytest.raises(StateError, match="have ended"):
                engine.take([pending])
        except BaseException:  # noqa: BLE001 - whatever it is, the child says so and ends
            right = False
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(engine.take([pending])) == 1


def test_a_thread_that_waits_is_let_in_before_one_that_comes_back():
    """Whoever drives would otherwise keep the others from their tokens, and from asking at all."""
    core_steps = []

    class Counting(FakeBackend):
        def execute(self, step, cache):
            core_steps.append(step)
            if len(core_steps) == 3:
                late.start()
                while len(engine._lock._queue) < 2:  # until it waits
                    time.sleep(0.001)
            return super().execute(step, cache)

    def ask():
        asked_after.append(tokens(engine, engine.submit(request(2, 1))) and len(core_steps))

    engine, asked_after = shared(Counting(block_size=4, max_context=64)), []
    late = threading.Thread(target=ask)
    tokens(engine, engine.submit(request(1, 40)))
    late.join()
    assert asked_after and asked_after[0] <= 5, "its prompt and its token are the next step"


def test_closing_says_why_nothing_comes_any_more():
    engine = shared()
    left = engine.submit(request(1, 50))
    engine.take([left])
    engine.close()
    with pytest.raises(StateError, match="the model was closed"):
        engine.take([left])


def test_other_threads_go_on_while_a_grammar_is_compiled():
    class Slow(ListCompiler):
        asked, ready = threading.Event(), threading.Event()

        def compile(self, grammar):
            self.asked.set()
            assert self.ready.wait(30)
            return super().compile(grammar)

    backend = FakeBackend(block_size=4, max_context=64)
    grammars = Slow(backend.vocab_size, (3,))
    engine = SharedEngine(
        lambda: closing(EngineCore(backend, EngineConfig(cache_tokens=512), eos_ids=[3], grammars=grammars))
    )
    found = []

    def ask():
        number = engine.submit(EngineRequest([5, 1, 2], grammar=lists((7, 8), (7, 9))))
        found.append(tokens(engine, number))

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert grammars.asked.wait(30)
    assert len(tokens(engine, engine.submit(request(1)))) == 10
    assert not found
    grammars.ready.set()
    waiting.join(30)
    assert found in ([[7, 8]], [[7, 9]])


class TestLeaving:
    """What a recipe opened is left once, by the process that opened it."""

    def test_is_done_once(self):
        recipe = Recipe()
        engine = SharedEngine(recipe)
        engine.close()
        assert (recipe.made, recipe.told) == (0, [])
        engine = SharedEngine(recipe)
        tokens(engine, engine.submit(request(1)))
        tokens(engine, engine.submit(request(2)))
        assert (recipe.made, recipe.told) == (1, [])
        for _ in range(2):
            engine.close()
        del engine
        gc.collect()
        assert (recipe.made, recipe.told) == (1, [os.getpid()])

    def test_an_engine_that_could_not_be_made_is_not_left_and_made_at_the_next_request(self):
        recipe = Recipe(fails=["making"])
        engine = SharedEngine(recipe)
        for _ in range(2):
            with pytest.raises(BackendError, match="no memory"):
                engine.submit(request(1))
        assert (recipe.made, recipe.told, engine.stats()) == (2, [], None)
        recipe.fails.clear()
        assert len(tokens(engine, engine.submit(request(1)))) == 10
        engine.close()
        assert (recipe.made, recipe.told) == (3, [os.getpid()])

    def test_an_error_while_leaving_is_told_once_and_the_engine_is_closed(self):
        recipe = Recipe(fails=["leaving"])
        engine = SharedEngine(recipe)
        pending = engine.submit(request(1))
        with pytest.raises(BackendError, match="no way out"):
            engine.close()
        engine.close()
        assert len(recipe.told) == 1
        with pytest.raises(StateError, match="closed"):
            engine.take([pending])

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    @pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
    @pytest.mark.parametrize("asks", [False, True])
    @pytest.mark.parametrize("generations", [1, 2])
    def test_is_not_done_in_children(self, generations, asks):
        """A child that drops the engine, closes it, or forks again leaves only what it opened itself."""
        recipe = Recipe()
        engine = SharedEngine(recipe)
        pending = engine.submit(request(1))
        is_parent = True
        for _ in range(generations):
            child = os.fork()
            if child:
                break
            is_parent = False
            if asks:
                tokens(engine, engine.submit(request(2)))
        if not is_parent:
            right = child == 0 or os.waitpid(child, 0)[1] == 0
            engine.close()
            del engine
            gc.collect()
            os._exit(0 if right and recipe.told == [os.getpid()] * asks else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert recipe.told == []
        assert len(tokens(engine, pending)) == 10
        engine.close()
        assert recipe.told == [os.getpid()]
