"""The worker's side of a measurement: requests and answers as JSON, a line each, on standard input and output.

::

    {"do": "load", "model": "...", "threads": 2}          -> {"load_s": 0.3, "rss_mb": 210.0}
    {"do": "prefill", "prompt": [..]}                     -> {"seconds": 0.1}
    {"do": "decode", "prompt": [..], "new_tokens": 64}    -> {"seconds": 0.6}         63 tokens: from the first to the last
    {"do": "streams", "prompts": [[..], ..], "new_tokens": 64}
                                                          -> {"decode_s": 2.0, "total_s": 3.1}
    {"do": "memory"}                                      -> {"rss_mb": 300.0, "peak_mb": 410.0}

The first line of a worker is ``{"versions": {...}}``. A failing request is answered with ``{"error": "..."}``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

Loaded = TypeVar("Loaded")


@dataclass(frozen=True)
class StreamTimes:
    """What parallel sequences took.

    Attributes:
        decode_s: From the moment when all have their first token to the end.
        total_s: From the prompts to the end.
    """

    decode_s: float
    total_s: float


class Program(Protocol):
    """A loaded model in one program. Choices are greedy, and an end-of-text token does not end an answer."""

    def prefill(self, prompt: Sequence[int]) -> float:
        """Seconds from a prompt to its first new token."""
        ...

    def decode(self, prompt: Sequence[int], new_tokens: int) -> float:
        """Seconds from the first new token to the last."""
        ...

    def streams(self, prompts: Sequence[Sequence[int]], new_tokens: int) -> StreamTimes:
        """What it takes to answer several prompts of equal length at once."""
        ...


def measure(program: Program, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Do what a request asks of a loaded model."""
    if request["do"] == "prefill":
        return {"seconds": program.prefill(request["prompt"])}
    if request["do"] == "decode":
        return {"seconds": program.decode(request["prompt"], request["new_tokens"])}
    times = program.streams(request["prompts"], request["new_tokens"])
    return {"decode_s": times.decode_s, "total_s": times.total_s}


def serve(
    load: Callable[[Path, int], Loaded],
    packages: Sequence[str],
    *,
    answer: Callable[[Loaded, Mapping[str, Any]], Mapping[str, Any]] = measure,
) -> None:
    """Answer requests until standard input ends.

    Args:
        load: Loads a model, given its path and the number of threads.
        packages: Their versions are told.
        answer: Does all else than loading and telling memory.
    """
    # libraries print what they like to standard output; answers go to a copy that only we know
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(values: Mapping[str, Any]) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    say({"versions": {package: version(package) for package in packages}})
    program: Loaded | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "load":
                started = time.perf_counter()
                program = load(Path(request["model"]), request["threads"])
                say({"load_s": time.perf_counter() - started, "rss_mb": memory_mb("VmRSS")})
            elif request["do"] == "memory":
                say({"rss_mb": memory_mb("VmRSS"), "peak_mb": memory_mb("VmHWM")})
            else:
                assert program is not None, "the first request loads a model"
                say(answer(program, request))
        except Exception as error:  # noqa: BLE001 - whatever it was, the other side must be told
            say({"error": f"{type(error).__name__}: {error}"})


def memory_mb(field: str) -> float | None:
    """Memory of this process in MB; None where /proc does not tell."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(f"{field}:")), None)
    return None if found is None else int(found.split()[1]) * 1024 / 1e6
