"""``onnxgen serve`` from the outside: a process that starts, answers, is told to end, and ends in good order."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from real_models import checkpoint_file

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


class ServerProcess:
    """A server in a process, and what it has said."""

    def __init__(self, *arguments: str, form: str = "text") -> None:
        self.lines: list[str] = []
        command = [
            sys.executable,
            "-m",
            "onnxgen.cli",
            "serve",
            *arguments,
            "--port",
            "0",
            "--log-format",
            form,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(iter(self.process.stderr.readline, ""))

    def wait_for(self, pattern: str, *, seconds: float = 120) -> str:
        """What a pattern found in a line, as soon as there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found[found.lastindex or 0]
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"no line has {pattern!r}:\n{''.join(self.lines)}")

    def close(self) -> None:
        """Stop reading what it said."""
        self._reading.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[ServerProcess]:
    server = ServerProcess(*arguments)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(10)
        server.close()


@pytest.fixture(scope="module", autouse=True)
def smollm2():
    checkpoint_file("smollm2", fetch=True)


def test_it_starts_answers_and_ends_when_it_is_told_to():
    with serving("smollm2", "--cache-tokens", "4096", "--drain-s", "20") as server:
        url = server.wait_for(r"listening on (http://\S+)")
        server.wait_for("smollm2: loaded in")
        for said in (
            r"context\s+8192 tokens",
            r"cache\s+4096 tokens",
            r"template\s+\S+jinja",
            r"sampling\s+",
        ):
            server.wait_for(said, seconds=10)
        assert httpx.get(f"{url}/health").json()["status"] == "ok"
        with httpx.stream(
            "POST",
            f"{url}/v1/chat/completions",
            json={"messages": QUESTION, "stream": True, "max_tokens": 200, "ignore_eos": True},
            timeout=60,
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: {")
            server.process.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert rest[-2:] == ["data: [DONE]", ""] and "length" in rest[-4]
        assert server.process.wait(60) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")


def test_answers_that_take_too_long_end_with_the_reason():
    with serving("smollm2", "--cache-tokens", "8192", "--drain-s", "0.2") as server:
        url = server.wait_for(r"listening on (http://\S+)")
        server.wait_for("smollm2: loaded in")
        with httpx.stream(
            "POST",
            f"{url}/v1/chat/completions",
            json={"messages": QUESTION, "stream": True, "max_tokens": 8000, "ignore_eos": True},
            timeout=60,
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("data: {")
            server.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
        assert '"error"' in rest[-1] or '"error"' in rest[-2]
        assert server.process.wait(60) == 0


def test_a_log_of_json_lines_has_nothing_else():
    server = ServerProcess("no-such-model", form="json")
    assert server.process.wait(60) == 1
    server.close()
    *log, last = server.lines
    messages = [json.loads(line)["message"] for line in log]
    assert messages and any("listening on http://" in message for message in messages)
    assert last.startswith("error: ")  # what a person who started it by hand sees


def test_a_model_that_cannot_be_loaded_ends_the_server_with_the_reason(tmp_path):
    with serving("no-such-model") as server:
        assert server.process.wait(60) == 1
        assert "no-such-model" in server.lines[-1] and server.lines[-1].startswith("error: ")
