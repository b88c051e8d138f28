import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from onnxgen.graph.cpu.compiled.control import LINE_BYTES, Control
from onnxgen.graph.cpu.step.crew import Crew
from onnxgen.graph.ep.threads import limited_threads
from step_probe import ProbedStep

_TESTS = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def seeded():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    random.seed(seed)


def _parts(*, most_rows=40, most_parts=9):
    return [
        random.choice([0, 1, 1, 2, 3, random.randint(1, most_parts)])
        for _ in range(random.randint(1, most_rows))
    ]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_every_part_runs_once_and_rows_in_order(threads):
    for _ in range(30):
        step = ProbedStep(_parts(), work=random.choice([0, 10, 1000]))
        step.run(threads)
        step.check()


def test_steps_of_several_threads_take_turns():
    wrong: list[BaseException] = []

    def work(seed):
        generator = random.Random(seed)
        try:
            for _ in range(50):
                step = ProbedStep([generator.randint(0, 6) for _ in range(generator.randint(1, 20))])
                for _ in range(50):
                    step.run(generator.choice([1, 2, 2, 3, 5]), spinning=generator.random() < 0.9)
                    step.check()
        except BaseException as error:
            wrong.append(error)
            raise

    seeds = [random.randrange(1 << 32) for _ in range(4)]
    print("seeds", seeds)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not wrong


def test_a_step_that_is_freed_at_once_is_not_touched_again():
    for _ in range(500):
        step = ProbedStep(_parts(most_rows=10))
        step.run(3)
        step.check()
        # Whoever still wrote into this would be seen by the next owner of the memory.
        step.table.words[:] = -1
        step.counts[:] = 1 << 40
        del step


def test_counts_may_change_between_steps():
    step = ProbedStep([8] * 10)
    for _ in range(500):
        step.parts = [random.randint(0, 8) for _ in range(10)]
        step.counts[:] = step.parts
        step.run(2)
        step.check()


def test_the_limit_of_threads_holds():
    own, step = Crew(), ProbedStep([4] * 5)
    with limited_threads(1):
        step.run(4, by=own)
    assert own.num_workers == 0
    with limited_threads(3):
        step.run(8, by=own)
    assert own.num_workers == 2
    own.close()


def test_a_closed_crew_works_alone():
    own, step = Crew(), ProbedStep(_parts())
    step.run(4, by=own)
    own.close()
    assert not any(worker.is_alive() for worker in own._workers)
    step.run(4, by=own)
    step.check()


def test_idle_workers_burn_nothing():
    ProbedStep([4] * 4).run(2)
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.1


def test_a_profile_has_the_time_of_each_row():
    step = ProbedStep([1, 0, 1, 3], work=20_000)
    for threads in (1, 2):
        profile = np.full(4, -1, np.int64)
        start = time.perf_counter_ns()
        step.run(threads, profile=profile)
        whole = time.perf_counter_ns() - start
        step.check()
        assert (profile >= 0).all()
        assert profile.sum() <= whole
        assert profile[0] > 1_000


_PROGRAM = """
import os, sys, threading, time
from step_probe import ProbedStep
from onnxgen.graph.cpu.step.crew import crew
def step(threads=3, parts=(4, 1, 7), work=100):
    made = ProbedStep(parts, work=work)
    made.run(threads)
    made.check()
"""


def _run(program, **options):
    environment = os.environ | {"PYTHONPATH": str(_TESTS)}
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM + program],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
        **options,
    )


def test_a_process_ends_while_workers_still_look_for_work():
    for _ in range(5):
        done = _run("step()\nprint('done', flush=True)")
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_process_ends_while_another_thread_runs_steps():
    program = """
def forever():
    while True:
        step()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
print('done', flush=True)
"""
    done = _run(program)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("busy", [False, True], ids=["between steps", "inside a step"])
def test_a_forked_child_runs_steps(busy):
    program = f"""
step()
if {busy}:
    def forever():
        while True:
            step(parts=[9] * 50, work=2000)
    threading.Thread(target=forever, daemon=True).start()
for _ in range(20):
    time.sleep(0.003)
    child = os.fork()
    if child == 0:
        step()
        step(threads=1)
        os._exit(17)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    step()
print('done', flush=True)
"""
    done = _run(program)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_ends_in_order():
    program = """
step()
child = os.fork()
step()
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print('done', flush=True)
"""
    done = _run(program)
    assert (done.returncode, done.stdout) == (0, "done\ndone\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_an_interrupted_process_can_go_on():
    program = """
import signal
interrupts = 0
made = ProbedStep([9] * 30, work=500)
print('ready', flush=True)
deadline = time.monotonic() + 20
while interrupts < 5 and time.monotonic() < deadline:
    try:
        while time.monotonic() < deadline:
            made.run(3)
            made.check()
    except KeyboardInterrupt:
        interrupts += 1
        print('interrupted', flush=True)
signal.signal(signal.SIGINT, signal.SIG_IGN)
for _ in range(100):
    made.run(3)
    made.check()
print('done', flush=True)
"""
    environment = os.environ | {"PYTHONPATH": str(_TESTS)}
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM + program], stdout=subprocess.PIPE, env=environment, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(5):
            time.sleep(random.uniform(0.01, 0.05))
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
        assert process.stdout.read() == "done\n"
    assert process.returncode == 0


def test_workers_stay_awake_only_where_they_may_spin(monkeypatch):
    monkeypatch.setattr("onnxgen.graph.cpu.step.crew.PATIENCE_S", 1000.0)
    own, step = Crew(), ProbedStep([4] * 3)
    asleep = own._shared._words[Control.ASLEEP * LINE_BYTES // 8 :]

    def sleeps_within(seconds):
        end = time.monotonic() + seconds
        while not asleep[0] and time.monotonic() < end:
            time.sleep(0.001)
        return bool(asleep[0])

    step.run(2, by=own)
    assert not sleeps_within(0.05)
    step.run(2, by=own, spinning=False)
    assert sleeps_within(20)
    # It is woken, and stays awake again.
    step.run(2, by=own)
    step.check()
    end = time.monotonic() + 20
    while asleep[0] and time.monotonic() < end:
        time.sleep(0.001)
    assert not asleep[0]
    own.close()
