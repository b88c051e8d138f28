"""`Interruption` ends one task's wait for a reason, and leaves everything else as it is."""

import asyncio

import pytest

from onnxgen.server.generation.interruption import Interruption


class LeftError(Exception):
    pass


async def wait_for_ever(interruption):
    with interruption:
        await asyncio.Event().wait()


def test_a_wait_ends_with_the_reason():
    async def work():
        interruption = Interruption()
        asyncio.get_running_loop().call_soon(interruption.interrupt, LeftError("gone"))
        with pytest.raises(LeftError, match="gone"):
            await wait_for_ever(interruption)
        task = asyncio.current_task()
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # nothing of it is left

    asyncio.run(work())


def test_the_first_reason_counts_for_all_waits_after_it():
    async def work():
        interruption = Interruption()
        interruption.interrupt(LeftError("first"))
        interruption.interrupt(LeftError("second"))
        for _ in range(2):
            with pytest.raises(LeftError, match="first"):
                await wait_for_ever(interruption)

    asyncio.run(work())


def test_cancelling_the_task_stays_a_cancellation():
    async def work():
        task = asyncio.create_task(wait_for_ever(Interruption()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_a_cancellation_at_the_same_moment_wins():
    async def work():
        interruption = Interruption()
        task = asyncio.create_task(wait_for_ever(interruption))
        await asyncio.sleep(0)
        task.cancel()
        interruption.interrupt(LeftError("gone"))
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())


def test_what_the_wait_ends_with_itself_is_raised():
    async def work():
        interruption = Interruption()
        with pytest.raises(ValueError, match="own"), interruption:
            raise ValueError("own")
        with interruption:
            await asyncio.sleep(0)

    asyncio.run(work())


def test_the_end_of_a_wait_and_a_reason_may_meet():
    async def work():
        interruption, done = Interruption(), asyncio.get_running_loop().create_future()

        def both():
            done.set_result("done")
            interruption.interrupt(LeftError("gone"))

        asyncio.get_running_loop().call_soon(both)
        with pytest.raises(LeftError), interruption:
            await done
        assert asyncio.current_task().cancelling() == 0

    asyncio.run(work())
