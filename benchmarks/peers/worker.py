"""This side of a worker: a child process that holds one model, see `benchmarks.peers.workers.serving`."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_ROOT = Path(__file__).parents[2]


class WorkerError(Exception):
    """A worker could not do what it was asked; the message is the program's own."""


class Worker:
    """A process in the environment of one program. Use it as a context manager.

    Args:
        command: Interpreter, and what it runs.

    Attributes:
        versions: Packages of the program.
        pid: The process.

    Raises:
        WorkerError: The process did not start.
    """

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - lives as long
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,  # a file, which never fills up
            text=True,
            encoding="utf-8",
            cwd=_ROOT,
        )
        self.pid = self._process.pid
        try:
            self.versions: Mapping[str, str] = self._read()["versions"]
        except WorkerError:
            self.close()
            raise

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Ask for one thing and wait for the answer.

        Raises:
            WorkerError: The program failed, or its process ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said last is read below
        return self._read()

    def close(self) -> None:
        """End the process, and with it the memory of the model."""
        self._process.kill()
        self._process.communicate()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._said.seek(0)
            last = self._said.read().strip().splitlines()[-1:] or ["nothing"]
            raise WorkerError(f"ended with {self._process.returncode}; it said last: {last[0]}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"])
        return answer
