"""`ModelTable` on scripted models: names, shared loads, limits, failures, restarts, health."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_doubles import entry, run, table, until
from onnxgen.errors import BackendError, ConfigError, ModelFileError, ModelNotFoundError
from onnxgen.server.errors import ApiError
from onnxgen.server.models import ModelState, ModelTable, TableLimits

MIB = 1 << 20


def test_names_resolve_in_the_table_and_nowhere_else(tmp_path):
    async def scenario():
        async with table(entry("org/chat", aliases=("gpt-4o", "main")), entry("b")) as t:
            for name in ("org/chat", "gpt-4o", "main", None):
                async with t.models.use(name) as model:
                    assert model.id == "org/chat"
            assert t.loader.ids == ["org/chat"]
            for name in ("../org/chat", str(tmp_path), "ORG/CHAT", "", "org", "chat\x00", "x" * 5000):
                with pytest.raises(ApiError) as caught:
                    async with t.models.use(name):
                        pass
                assert (caught.value.status, caught.value.code, caught.value.param) == (
                    404,
                    "model_not_found",
                    "model",
                )
                assert len(caught.value.message) < 400
            with pytest.raises(ApiError, match="did you mean 'gpt-4o'"):
                t.models.entry("gpt-4")

    run(scenario())


@pytest.mark.parametrize(
    "entries", [[], [entry("a"), entry("b", aliases=("a",))], [entry("a", aliases=("a",))]]
)
def test_tables_without_models_or_with_a_name_twice_are_refused(entries):
    with pytest.raises(ConfigError):
        ModelTable(entries, load=None)  # type: ignore[arg-type]


def test_requests_share_one_load_and_one_that_leaves_does_not_end_it():
    async def scenario():
        async with table(entry("a")) as t:
            t.loader.gates["a"] = asyncio.Event()

            async def ask():
                async with t.models.use("a") as model:
                    return model

            asking = [asyncio.create_task(ask()) for _ in range(7)]
            await until(lambda: t.models.status("a").uses == 7)
            asking[0].cancel()
            await until(lambda: t.models.status("a").uses == 6)
            assert t.models.status("a").state is ModelState.LOADING
            t.loader.gates["a"].set()
            assert len(set(await asyncio.gather(*asking[1:]))) == 1
            assert t.loader.ids == ["a"]
            assert t.models.status("a").uses == 0

    run(scenario())


def test_models_load_one_after_another_and_health_turns_when_all_are_there():
    async def scenario():
        async with table(entry("a", preload=True), entry("b", preload=True), entry("lazy")) as t:
            t.loader.gates["b"] = asyncio.Event()
            await t.models.start()
            await until(lambda: t.models.status("a").state is ModelState.READY)
            assert t.models.health.status == "loading"
            async with t.models.use("a"):  # those that are there already answer
                pass
            t.loader.gates["b"].set()
            await t.models.preloaded()
            health = t.models.health
            assert (health.status, health.reason) == ("ok", None)
            assert health.models["lazy"] is ModelState.UNLOADED
            assert t.loader.most_under_way == 1

    run(scenario())


def test_no_more_models_are_loaded_at_the_beginning_than_there_is_room_for():
    async def scenario():
        entries = [entry(name, preload=True) for name in "abc"]
        async with table(*entries, limits=TableLimits(max_loaded=2)) as t:
            await t.models.start()
            await t.models.preloaded()
            assert t.loader.ids == ["a", "b"]
            assert t.models.health.status == "ok"

    run(scenario())


def test_the_least_recently_used_idle_model_makes_room():
    async def scenario():
        async with table(*map(entry, "abc"), limits=TableLimits(max_loaded=2)) as t:
            for name in "abab":
                t.clock.now += 1
                async with t.models.use(name):
                    pass
            a, b = t.loader.loaded
            async with t.models.use("c"):
                assert (a.llm.closed, b.llm.closed) == (True, False)
            assert [s.state.value for s in t.models.statuses()] == ["unloaded", "ready", "ready"]
            async with t.models.use("a"):
                assert b.llm.closed
            assert t.loader.ids == ["a", "b", "c", "a"]

    run(scenario())


def test_a_model_in_use_stays_and_the_newcomer_waits_for_it():
    async def scenario():
        async with table(entry("a"), entry("b"), limits=TableLimits(max_loaded=1)) as t:
            async with t.models.use("a") as a:
                newcomer = asyncio.create_task(t.models.load("b"))
                await until(lambda: t.models.status("b").state is ModelState.LOADING)
                await asyncio.sleep(0.02)
                assert t.loader.ids == ["a"]
                assert not a.llm.closed
            assert (await newcomer).state is ModelState.READY
            assert a.llm.closed

    run(scenario())


def test_no_room_in_time_is_a_503_that_says_so():
    async def scenario():
        async with (
            table(entry("a"), entry("b"), limits=TableLimits(max_loaded=1), wait_s=0.05) as t,
            t.models.use("a"),
        ):
            with pytest.raises(ApiError) as caught:
                await t.models.load("b")
            assert caught.value.status == 503
            assert caught.value.code in ("no_room", "model_loading")
            assert "Retry-After" in caught.value.headers
            assert t.models.status("a").state is ModelState.READY

    run(scenario())


def test_measured_memory_decides_who_must_go():
    async def scenario():
        limits = TableLimits(memory_bytes=100 * MIB)
        async with table(*map(entry, "abc"), limits=limits) as t:
            t.loader.sizes = {"a": 30 * MIB, "b": 60 * MIB, "c": 500 * MIB}
            await t.models.start()
            for name in "ab":
                t.clock.now += 1
                await t.models.load(name)
            assert t.models.status("a").memory_bytes == 30 * MIB
            await t.models.load("c")  # alone it is too large, and is kept: one model always is
            await until(lambda: [m.id for m in t.models.loaded()] == ["c"])
            await t.models.load("a")  # what c takes is known now
            assert [m.id for m in t.models.loaded()] == ["a"]

    run(scenario())


def test_a_model_that_nobody_asks_for_is_unloaded_and_comes_back():
    async def scenario():
        async with table(
            entry("a", keep_alive_s=0.03), entry("b"), limits=TableLimits(keep_alive_s=1000)
        ) as t:
            async with t.models.use("a"):
                await asyncio.sleep(0.1)  # in use for longer than that
                assert t.models.status("a").state is ModelState.READY
                assert t.models.status("a").unload_in_s is None
            await until(lambda: t.models.status("a").state is ModelState.UNLOADED)
            assert t.loader.loaded[0].llm.closed
            await t.models.load("b")
            assert 900 < t.models.status("b").unload_in_s <= 1000
            await t.models.load("a")
            assert t.loader.ids == ["a", "b", "a"]
            t.models.set_limits(TableLimits(keep_alive_s=0))
            await until(lambda: t.models.status("b").state is ModelState.UNLOADED)

    run(scenario())


def test_a_failed_load_is_told_to_all_who_wait_and_tried_again_after_a_while(caplog):
    async def scenario():
        async with table(entry("a"), entry("b")) as t:
            t.loader.failures["a"] = [
                ModelFileError("/secret/place/model.onnx is truncated"),
                BackendError("no"),
            ]
            found = await asyncio.gather(*(t.models.load("a") for _ in range(3)), return_exceptions=True)
            for error in found:
                assert isinstance(error, ApiError)
                assert (error.status, error.code) == (503, "model_unavailable")
                assert "a file of it is missing or broken" in error.message
                assert "secret" not in error.message
            assert "/secret/place" in caplog.text
            assert "/secret/place" in t.models.status("a").error
            assert t.models.health.status == "ok"  # b can be had
            with pytest.raises(ApiError) as caught:
                async with t.models.use("a"):
                    pass
            assert caught.value.headers["Retry-After"] == "1"
            assert len(t.loader.failures["a"]) == 1  # not tried yet
            t.clock.now += 1.5
            with pytest.raises(ApiError, match="backend could not load"):
                async with t.models.use("a"):
                    pass
            with pytest.raises(ApiError) as caught:
                async with t.models.use("a"):
                    pass
            assert caught.value.headers["Retry-After"] == "2"
            assert (await t.models.load("a")).state is ModelState.READY  # by hand: at once
            assert t.models.status("a").error is None
            async with t.models.use("b"):
                pass

    run(scenario())


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ModelNotFoundError("/x is not there"), "its files are not there"),
        (OSError(28, "No space left on device"), "the disk is full"),
        (MemoryError(), "not enough memory"),
        (ZeroDivisionError("oops"), "failed unexpectedly"),
    ],
)
def test_why_a_model_cannot_be_loaded_is_said_without_its_insides(failure, text):
    async def scenario():
        async with table(entry("a"), entry("b")) as t:
            t.loader.failures["a"] = [failure]
            with pytest.raises(ApiError, match=text) as caught:
                await t.models.load("a")
            assert "/x" not in caught.value.message
            await t.models.load("b")

    run(scenario())


def test_a_first_load_that_fails_is_tried_again_by_itself():
    async def scenario():
        async with table(entry("a", preload=True)) as t:
            t.loader.failures["a"] = [BackendError("not yet")]
            await t.models.start()
            with pytest.raises(ApiError, match="cannot be loaded"):
                await t.models.preloaded()
            assert t.models.health.status == "unhealthy"
            await until(lambda: t.models.health.status == "ok")
            assert t.models.status("a").state is ModelState.READY

    run(scenario())


def test_a_request_meanwhile_does_not_keep_a_first_load_from_being_tried_again():
    async def scenario():
        async with table(entry("a", preload=True)) as t:
            t.loader.failures["a"] = [BackendError("not yet")]
            await t.models.start()
            with pytest.raises(ApiError):
                await t.models.preloaded()
            with pytest.raises(ApiError, match="cannot be loaded"):
                async with t.models.use("a"):
                    pass
            await until(lambda: t.models.health.status == "ok")
            assert t.models.status("a").state is ModelState.READY

    run(scenario())


def test_an_engine_that_was_made_anew_is_still_unloaded_when_nobody_asks_for_it():
    async def scenario():
        async with table(entry("a")) as t:
            await t.models.load("a")
            llm = t.loader.loaded[0].llm
            llm.may_restart.clear()
            llm.die()
            await until(lambda: t.models.status("a").state is ModelState.RESTARTING)
            t.models.set_limits(TableLimits(keep_alive_s=0.01))
            assert not llm.closed
            llm.may_restart.set()
            await until(lambda: llm.closed)
            assert t.models.status("a").state is ModelState.UNLOADED

    run(scenario())


def test_a_dead_engine_is_made_anew_with_its_adapters_and_requests_are_told_meanwhile(caplog):
    async def scenario():
        async with table(entry("a", adapters={"style": "/adapters/style"}), entry("b")) as t:
            async with t.models.use("a") as model:
                llm = model.llm
            llm.may_restart.clear()
            llm.die("signal 9")
            with pytest.raises(ApiError) as caught:  # before anybody heard of it
                await t.models.load("a")
            assert (caught.value.status, caught.value.code) == (503, "engine_failed")
            assert t.models.health.status == "unhealthy"
            await until(lambda: t.models.status("a").state is ModelState.RESTARTING)
            assert "'a'" in t.models.health.reason
            assert t.models.status("a").error == "signal 9"
            with pytest.raises(ApiError) as caught:
                async with t.models.use("a"):
                    pass
            assert caught.value.headers["Retry-After"]
            async with t.models.use("b"):
                pass
            llm.may_restart.set()
            await until(lambda: t.models.health.status == "ok")
            async with t.models.use("a") as same:
                assert same is model
            assert llm.calls == [("adapter", ("/adapters/style", "style"))]
            assert (t.models.status("a").restarts, t.models.status("a").error) == (1, None)
            assert "signal 9" in caplog.text

    run(scenario())


def test_restarts_that_fail_and_engines_that_die_soon_are_tried_with_longer_pauses():
    async def scenario():
        async with table(entry("a")) as t:
            await t.models.load("a")
            llm = t.loader.loaded[0].llm
            llm.refuses_restarts = 9
            llm.die()
            await until(lambda: llm.restarts == 1)
            assert t.clock.slept == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
            t.clock.slept.clear()
            await until(lambda: t.models.health.status == "ok")
            await asyncio.sleep(0.01)
            llm.die()  # soon after
            await until(lambda: llm.restarts == 2)
            assert t.clock.slept == [60.0]
            await asyncio.sleep(0.01)
            t.clock.now += 3600
            llm.die()  # after a long life
            await until(lambda: llm.restarts == 3)
            assert t.clock.slept == [60.0, 0.0]

    run(scenario())


def test_a_restart_by_hand_is_no_failure_and_supervision_goes_on():
    async def scenario():
        async with table(entry("a")) as t:
            await t.models.load("a")
            llm = t.loader.loaded[0].llm
            assert (await t.models.restart("a")).restarts == 1
            await asyncio.sleep(0)
            llm.die()
            await until(lambda: llm.restarts == 2)
            llm.refuses_restarts = 1
            await until(lambda: t.models.health.status == "ok")
            with pytest.raises(BackendError):
                await t.models.restart("a")
            assert t.models.health.status == "unhealthy"
            llm.die("the restart failed")
            await until(lambda: t.models.health.status == "ok")

    run(scenario())


def test_unloading_what_is_in_use_needs_force():
    async def scenario():
        async with table(entry("a"), entry("b")) as t:
            async with t.models.use("a") as model:
                with pytest.raises(ApiError, match="1 requests use") as caught:
                    await t.models.unload("a")
                assert caught.value.status == 409
                assert (await t.models.unload("a", force=True)).state is ModelState.UNLOADED
                assert model.llm.closed
            assert (await t.models.unload("b")).state is ModelState.UNLOADED  # nothing to do
            async with t.models.use("a") as again:
                assert again is not model

    run(scenario())


def test_a_load_under_way_can_be_given_up():
    async def scenario():
        async with table(entry("a")) as t:
            t.loader.gates["a"] = asyncio.Event()
            loading = asyncio.create_task(t.models.load("a"))
            await until(lambda: t.loader.under_way)
            loading.cancel()
            assert (await t.models.unload("a", force=True)).state is ModelState.UNLOADED
            assert not t.loader.under_way
            t.loader.gates["a"].set()
            assert (await t.models.load("a")).state is ModelState.READY

    run(scenario())


def test_requests_that_wait_for_a_model_end_when_it_is_unloaded_by_force():
    async def scenario():
        async with table(entry("a")) as t:
            t.loader.gates["a"] = asyncio.Event()
            waiting = [asyncio.create_task(t.models.load("a")) for _ in range(3)]
            await until(lambda: t.loader.under_way)
            assert (await t.models.unload("a", force=True)).state is ModelState.UNLOADED
            for found in await asyncio.gather(*waiting, return_exceptions=True):
                assert isinstance(found, ApiError)
                assert (found.status, found.code) == (503, "model_unloaded")
            assert t.models.status("a").uses == 0
            assert t.loader.loaded == []

    run(scenario())


def test_one_restart_at_a_time_and_the_engine_is_watched_once():
    async def scenario():
        async with table(entry("a")) as t:
            await t.models.load("a")
            llm = t.loader.loaded[0].llm
            llm.may_restart.clear()
            restarting = asyncio.create_task(t.models.restart("a"))
            await until(lambda: t.models.status("a").state is ModelState.RESTARTING)
            with pytest.raises(ApiError) as caught:
                await t.models.restart("a")
            assert (caught.value.status, caught.value.code) == (503, "engine_failed")
            llm.may_restart.set()
            assert (await restarting).restarts == llm.restarts == 1
            llm.die()
            await until(lambda: llm.restarts == 2)
            await asyncio.sleep(0.01)
            assert t.models.status("a").restarts == llm.restarts == 2

    run(scenario())


def test_a_restart_that_nobody_waits_for_goes_on_and_one_of_an_unloaded_model_ends():
    async def scenario():
        async with table(entry("a")) as t:
            await t.models.load("a")
            llm = t.loader.loaded[0].llm
            llm.may_restart.clear()
            restarting = asyncio.create_task(t.models.restart("a"))
            await until(lambda: t.models.status("a").state is ModelState.RESTARTING)
            restarting.cancel()
            await asyncio.wait([restarting])
            assert t.models.status("a").state is ModelState.RESTARTING
            llm.may_restart.set()
            await until(lambda: t.models.status("a").state is ModelState.READY)
            llm.die()
            await until(lambda: llm.restarts == 2)

            await until(lambda: t.models.status("a").state is ModelState.READY)
            llm.may_restart.clear()
            restarting = asyncio.create_task(t.models.restart("a"))
            await until(lambda: t.models.status("a").state is ModelState.RESTARTING)
            assert (await t.models.unload("a", force=True)).state is ModelState.UNLOADED
            with pytest.raises(ApiError) as caught:
                await restarting
            assert (caught.value.status, caught.value.code) == (503, "model_unloaded")
            assert llm.closed
            assert t.models.status("a").state is ModelState.UNLOADED
            assert (await t.models.load("a")).state is ModelState.READY

    run(scenario())


def test_warm_up_answers_freely_and_with_a_grammar_before_a_model_counts_as_loaded():
    async def scenario():
        async with table(entry("a", warm_up=True)) as t:
            await t.models.load("a")
            calls = t.loader.loaded[0].llm.calls
            assert [name for name, _ in calls] == ["complete", "chat", "complete"]
            assert calls[-1][1]["response_format"] == {"type": "json_object"}
            await t.models.warm_up("a")
            assert len(calls) == 6

    run(scenario())


def test_a_table_that_ends_closes_everything_and_refuses_requests():
    async def scenario():
        async with table(entry("a"), entry("b"), entry("c")) as t:
            await t.models.load("a")
            t.loader.gates["b"] = asyncio.Event()
            loading = asyncio.create_task(t.models.load("b"))
            await until(lambda: t.loader.under_way)
            await t.models.aclose()
            with pytest.raises(ApiError) as caught:
                await loading
            assert caught.value.status == 503
            assert t.loader.loaded[0].llm.closed
            assert not t.loader.under_way
            with pytest.raises(ApiError, match="about to end"):
                await t.models.load("c")
            await t.models.aclose()

    run(scenario())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), limit=st.integers(1, 4))
def test_whatever_happens_limits_hold_and_nothing_in_use_is_closed(seed, limit):
    chance = random.Random(seed)

    async def scenario():
        async with table(*map(entry, "abcde"), limits=TableLimits(max_loaded=limit)) as t:

            async def client():
                for _ in range(chance.randrange(1, 5)):
                    t.clock.now += 1
                    async with t.models.use(chance.choice("abcde")) as model:
                        for _ in range(chance.randrange(4)):
                            assert not model.llm.closed
                            assert len([m for m in t.loader.loaded if not m.llm.closed]) <= limit
                            await asyncio.sleep(0)

            clients = [asyncio.create_task(client()) for _ in range(6)]
            for task in clients:
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
            for result in await asyncio.gather(*clients, return_exceptions=True):
                assert result is None or isinstance(result, asyncio.CancelledError), result
            assert all(status.uses == 0 for status in t.models.statuses())
        assert all(model.llm.closed for model in t.loader.loaded)

    run(scenario())
