"""An engine in a process of its own: how that process ends, and what is seen of it from outside."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path
from queue import SimpleQueue

import pytest

import scripted_core
from heard_events import WAIT_S, Heard
from onnxgen.engine.client import HealthState, in_subprocess
from onnxgen.engine.client.messages import AskStats, Ready
from onnxgen.engine.client.subprocess import ProcessLink
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import BackendError, EngineDeadError, OptionError, StateError
from onnxgen.foundations.progress import SILENT
from scripted_core import CRASHES, ENDLESS, EXITS, HANGS, KILLED

TESTS = Path(scripted_core.__file__).parent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and process groups")


def ask(last, *, count=4):
    return EngineRequest([1, last], max_new_tokens=count)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return not Path("/proc").is_dir()


def wait_until_gone(pid):
    gone = threading.Event()
    for _ in range(int(WAIT_S / 0.02)):
        if not is_alive(pid):
            return
        gone.wait(0.02)
    raise AssertionError(f"process {pid} is still there")


def run_script(body, *, argv=(), **options):
    """Start a script that has no guard for its main module, as people write them."""
    program = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "import scripted_core, os, signal, time\n"
        "from functools import partial\n"
        "from heard_events import Heard\n"
        "from onnxgen.engine.client import in_process, in_subprocess\n"
        "from onnxgen.engine.request import EngineRequest\n"
        "ask = lambda count=10**9: EngineRequest([1, 5], max_new_tokens=count)\n" + body
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def ended(script):
    """Exit code, and what it said at its end."""
    out, err = script.communicate(timeout=WAIT_S)
    return script.returncode, out, err


STREAMING = """
client = MAKE(scripted_core.fast)
client.start()
heard = Heard()
number = client.submit(ask(), heard)
heard.wait_for_tokens(number, 5)
print(client.stats()["pid"], flush=True)
"""


@pytest.fixture(scope="module")
def client():
    with in_subprocess(scripted_core.fast) as client:
        client.start()
        yield client


def test_the_engine_has_a_process_of_its_own(client):
    assert client.stats()["pid"] == client.pid != os.getpid()


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (KILLED, r"process \d+ was killed by signal 9 \(SIGKILL\); the system may have run out of memory"),
        (EXITS, r"process \d+ ended with exit code 7"),
    ],
)
def test_the_death_of_the_process_ends_every_request_and_restart_works(client, last, message):
    if client.health.state is HealthState.FAILED:
        client.restart()
    heard = Heard()
    innocent = client.submit(ask(10, count=ENDLESS), heard)
    guilty = client.submit(ask(last), heard)
    for number in (innocent, guilty):
        error = heard.end(number).error
        assert type(error) is EngineDeadError
        assert re.search(message, str(error))
    assert client.health.state is HealthState.FAILED
    with pytest.raises(EngineDeadError, match=message):
        client.submit(ask(1), heard)
    client.restart()
    number = client.submit(ask(20), heard)
    heard.end(number)
    assert heard.tokens(number) == [21, 22, 23, 24]


class _Unreadable:
    """A processor that is pickled well, and not read again."""

    def __call__(self, history, row):
        raise AssertionError("never called")

    def __reduce__(self):
        return int, ("not a number",)


def test_a_request_that_cannot_be_read_there_fails_alone(client):
    bad = EngineRequest([1, 5], max_new_tokens=4, n=2, processors=[_Unreadable()])
    heard = Heard()
    with pytest.raises(OptionError, match=r"cannot be read in the engine's process.*'not a number'"):
        client.submit(bad, heard)
    number, good = client.submit_soon(bad, heard), client.submit(ask(20), heard)
    assert [type(heard.end(number, index).error) for index in range(2)] == [OptionError, OptionError]
    assert heard.end(good).finish_reason == "length"
    assert client.num_pending == 0


def test_a_report_that_cannot_be_read_is_the_end_of_the_engine_and_restart_works(client):
    heard = Heard()
    number = client.submit(ask(10, count=ENDLESS), heard)
    with pytest.raises(EngineDeadError, match="reports cannot be read"):
        client.reconfigure(scripted_core.OnlyThere(os.getpid()))
    assert type(heard.end(number).error) is EngineDeadError
    assert client.health.state is HealthState.FAILED
    client.restart()
    assert client.stats()["pid"] != os.getpid()


def test_a_command_that_cannot_be_read_there_is_the_end_of_the_process(client):
    with pytest.raises(EngineDeadError, match="exit code 1"):
        client.reconfigure(_Unreadable())
    client.restart()
    assert client.stats()["pid"] != os.getpid()


def test_a_process_that_is_killed_from_outside_is_seen(client):
    heard = Heard()
    number = client.submit(ask(10, count=ENDLESS), heard)
    heard.wait_for_tokens(number, 10)
    waiting = []
    asked = threading.Thread(target=lambda: waiting.append(_error_of(lambda: client.stats())))
    os.kill(client.stats()["pid"], signal.SIGKILL)
    asked.start()
    assert "SIGKILL" in str(heard.end(number).error)
    asked.join(WAIT_S)
    assert type(waiting[0]) is EngineDeadError
    assert heard.tokens(number) == list(range(11, 11 + len(heard.tokens(number))))
    client.restart()


def test_what_the_core_raised_is_told_with_its_traceback(client):
    heard = Heard()
    number = client.submit(ask(CRASHES), heard)
    (note,) = heard.end(number).error.__notes__
    assert "in the engine's process" in note
    assert "_misbehave" in note
    client.restart()


def test_a_step_that_hangs_does_not_keep_close_from_ending_it():
    client = in_subprocess(scripted_core.fast)
    client.start()
    pid = client.stats()["pid"]
    heard = Heard()
    number = client.submit(ask(HANGS), heard)
    heard.wait_for_tokens(number, 2)
    with pytest.raises(TimeoutError, match=r"did not answer within 0.1 s"):
        while True:  # at most until the third step
            client.stats(timeout_s=0.1)
    client.close(timeout_s=0.01)
    assert type(heard.end(number).error) is StateError
    assert not is_alive(pid)


def test_a_process_that_dies_while_it_loads_is_told_by_start():
    with in_subprocess(scripted_core.dies_while_loading) as client:
        with pytest.raises(EngineDeadError, match="killed by signal 9"):
            client.start()
        assert client.health.state is HealthState.FAILED


def test_what_is_printed_there_goes_to_standard_error(capfd):
    with in_subprocess(scripted_core.noisy) as client:
        client.start()
        heard = Heard()
        heard.end(client.submit(ask(1), heard))
    told = capfd.readouterr()
    assert told.out == ""
    assert "printed by the engine's process" in told.err


def test_a_parent_that_is_killed_leaves_no_orphan():
    script = run_script(STREAMING.replace("MAKE", "in_subprocess") + "time.sleep(1000)\n")
    pid = int(script.stdout.readline())
    assert is_alive(pid)
    script.kill()
    script.communicate(timeout=WAIT_S)
    wait_until_gone(pid)


def test_a_parent_that_is_killed_while_a_fork_of_it_lives_leaves_no_orphan():
    fork = "print(os.fork() or time.sleep(1000), flush=True)\ntime.sleep(1000)\n"
    script = run_script(STREAMING.replace("MAKE", "in_subprocess") + fork)
    pid, forked = int(script.stdout.readline()), int(script.stdout.readline())
    script.kill()
    script.wait(WAIT_S)
    try:
        wait_until_gone(pid)
        assert is_alive(forked)
    finally:
        os.kill(forked, signal.SIGKILL)
        script.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("how", ["in_process", "in_subprocess"])
def test_a_script_that_forgets_to_close_ends_at_once(how):
    code, out, err = ended(run_script(STREAMING.replace("MAKE", how)))
    assert (code, err) == (0, "")
    if how == "in_subprocess":
        wait_until_gone(int(out))


@pytest.mark.parametrize("how", ["in_process", "in_subprocess"])
def test_an_interrupt_while_it_serves_leaves_no_orphan_and_no_noise(how):
    serve = textwrap.indent(STREAMING.replace("MAKE", how) + "time.sleep(1000)\n", "    ")
    body = f"try:\n{serve}except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    script = run_script(body, start_new_session=True)
    pid = int(script.stdout.readline())
    os.killpg(script.pid, signal.SIGINT)
    assert ended(script) == (0, "interrupted\n", "")
    wait_until_gone(pid)


@pytest.mark.parametrize("how", ["in_process", "in_subprocess"])
def test_an_interrupt_while_it_loads_leaves_no_orphan_and_no_noise(how, tmp_path):
    body = (
        f"client = {how}(partial(scripted_core.loads_forever, {str(tmp_path / 'pid')!r}))\n"
        "try:\n    print('loading', flush=True)\n    client.start()\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    os.mkfifo(tmp_path / "pid")
    script = run_script(body, start_new_session=True)
    pid = int((tmp_path / "pid").read_text())
    os.killpg(script.pid, signal.SIGINT)
    code, out, err = ended(script)
    assert (code, out, err) == (0, "loading\ninterrupted\n", "")
    wait_until_gone(pid)


def test_a_signal_that_ends_all_processes_leaves_it_to_the_parent_to_end_the_engine():
    body = (
        "import signal\n"
        "told = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: told.append('told'))\n"
        + STREAMING.replace("MAKE", "in_subprocess")
        + "while not told:\n    time.sleep(0.01)\n"
        "print(*told, flush=True)\n"
        "print(client.health.state.value, flush=True)\n"
        "client.close()\n"
    )
    script = run_script(body, start_new_session=True)
    pid = int(script.stdout.readline())
    os.killpg(script.pid, signal.SIGTERM)
    assert ended(script) == (0, "told\nhealthy\n", "")
    wait_until_gone(pid)


def test_an_interrupt_while_its_process_begins_is_not_heeded_there():
    body = (
        "from onnxgen.engine.client.subprocess import _spawn\n"
        "process = _spawn()\n"
        "os.kill(process.pid, signal.SIGINT)\n"
        "process.stdin.close()\n"
        "print(process.wait())\n"
    )
    assert ended(run_script(body)) == (0, "0\n", "")


@pytest.mark.parametrize("how", ["in_process", "in_subprocess"])
def test_a_forked_child_is_told_that_it_has_no_engine(how):
    body = STREAMING.replace("MAKE", how) + (
        "from onnxgen.errors import StateError\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    for call in (client.stats, lambda: client.submit(ask(), heard), client.restart):\n"
        "        try:\n            call()\n        except StateError as error:\n            print(error)\n"
        "    client.close()\n"
        "    sys.exit()\n"
        "print('child', os.waitpid(child, 0)[1], flush=True)\n"
        "client.cancel(number)\n"
        "print(heard.end(number).finish_reason)\n"
    )
    code, out, err = ended(run_script(body))
    assert (code, err) == (0, "")
    lines = out.splitlines()[1:]
    assert len(lines) == 5
    assert all("a forked child" in line and "must make its own" in line for line in lines[:3])
    assert lines[3:] == ["child 0", "cancelled"]


def _error_of(call):
    try:
        call()
    except BackendError as error:
        return error
    raise AssertionError("it did not raise")


def test_what_is_sent_before_the_process_is_there_comes_after_its_recipe():
    heard = SimpleQueue()
    link = ProcessLink(scripted_core.fast)
    link.send(AskStats(7))
    link.start(types.SimpleNamespace(receive=heard.put, end=heard.put), progress=SILENT)
    try:
        told = [heard.get(timeout=WAIT_S), heard.get(timeout=WAIT_S)]
        assert isinstance(told[0], Ready) and told[1].answer_to == 7, told
    finally:
        link.close(timeout_s=WAIT_S)
