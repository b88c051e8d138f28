"""A server as a process with children: started, waited for, watched, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_ROOT = Path(__file__).parents[2]
_START_S = 180.0
_END_S = 20.0


class ServerError(Exception):
    """A server did not start, or ended; the message has its last words."""


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class ServerProcess:
    """A server of its own session, with everything that it starts. Use it as a context manager.

    Args:
        command: What runs it.
        health_url: Answers 200 when it can be asked.
        variables: Set in its environment.

    Attributes:
        start_s: Seconds until it could be asked.

    Raises:
        ServerError: It ended, or did not become able to answer in time.
    """

    def __init__(
        self, command: Sequence[str | Path], health_url: str, variables: Mapping[str, str] | None = None
    ) -> None:
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - lives as long
        started = time.perf_counter()
        self._process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            cwd=_ROOT,
            env=os.environ | dict(variables or {}),
            start_new_session=True,
        )
        try:
            self._wait_for(health_url, started + _START_S)
        except BaseException:
            self.close()
            raise
        self.start_s = time.perf_counter() - started

    @property
    def pids(self) -> list[int]:
        """It and all processes below it."""
        return process_tree(self._process.pid)

    @property
    def last_words(self) -> str:
        """The end of what it printed."""
        self._said.flush()
        self._said.seek(0)
        return "\n".join(self._said.read().strip().splitlines()[-8:]) or "nothing"

    def close(self) -> None:
        """Tell it to end, and end it and its children if it does not."""
        children = self.pids
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _wait_for(self, url: str, deadline: float) -> None:
        while time.perf_counter() < deadline:
            if self._process.poll() is not None:
                raise ServerError(
                    f"it ended with {self._process.returncode}; it said last:\n{self.last_words}"
                )
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.05)
        raise ServerError(f"{url} did not say 200 within {_START_S:g} s; it said last:\n{self.last_words}")


def process_tree(root: int) -> list[int]:
    """A process and all below it, as /proc tells; only the process itself where there is no /proc."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(_stat(int(folder.name))[1])
        except OSError:  # it ended meanwhile
            continue
    found = [root]
    for pid in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def rss_mb(pids: Sequence[int]) -> float:
    """Resident memory of all these processes in MB; pages that several of them share count once for each."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        except OSError:
            continue
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def cpu_seconds(pids: Sequence[int]) -> float:
    """Processor time of all these processes so far."""
    ticks = 0
    for pid in pids:
        try:
            fields = _stat(pid)
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Fields of a process from its state on, as ``proc_pid_stat(5)`` has them from the third."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
