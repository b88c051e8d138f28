import signal
import subprocess
import sys

import pytest

SCRIPT = """
import sys
{close}
from onnxgen.cli.process import prepare_process
prepare_process()
assert sys.stdin.read() == ""
print("out")
print("err", file=sys.stderr)
"""


@pytest.mark.parametrize("closed", [(), ("stdin",), ("stdout",), ("stderr",), ("stdin", "stdout", "stderr")])
def test_streams_that_were_closed_are_empty(closed):
    # what Python makes of a descriptor that is closed when it starts
    close = "; ".join(f"sys.{name} = None" for name in closed) or "pass"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(close=close)],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("" if "stdout" in closed else "out\n")
    assert done.stderr == ("" if "stderr" in closed else "err\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends the process there")
def test_an_exit_that_was_caught_is_not_lost():
    program = (
        "import contextlib, os, signal\n"
        "from onnxgen.cli.process import exit_if_told, prepare_process\n"
        "prepare_process()\n"
        "exit_if_told()\n"
        "with contextlib.suppress(BaseException):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "exit_if_told()\n"
        "print('lost')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (128 + signal.SIGTERM, b"")
