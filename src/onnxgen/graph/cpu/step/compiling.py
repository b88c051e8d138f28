"""Kernels to machine code: in this process, or several at once in processes of their own.

A process of its own gets kernels on its standard input and answers with their code, both pickled, until there are no more. So
many kernels take the time of a few, and the memory of the compiler (some hundred MB) goes when it is done.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.graph.cpu.step.code_folder import Code
from onnxgen.graph.cpu.step.kernel import COMPILED_PACKAGE, StepKernel

MOST_PROCESSES = 8
"""Each takes about 200 MB."""

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from onnxgen.graph.cpu.step.compiling import answer; answer()"
)

_Answers = queue.SimpleQueue[tuple[StepKernel, Code] | None]


def compile_kernel(kernel: StepKernel) -> Code:
    """Compile in this process; half a second, and a second more the first time."""
    from onnxgen.graph.cpu.compiled.kernel import object_code

    module, _, factory = kernel.factory.partition(":")
    function = getattr(import_module(f"{COMPILED_PACKAGE}.{module}"), factory)(**dict(kernel.parameters))
    return Code(*object_code(function, gives_value=kernel.gives_value))


def compile_in_processes(
    kernels: Sequence[StepKernel],
    *,
    processes: int | None = None,
    is_had: Callable[[StepKernel], bool] = lambda kernel: False,
) -> Iterator[tuple[StepKernel, Code]]:
    """Compile kernels in other processes; yields each when it is done.

    Those are missing that could not be compiled there, for whatever reason: whoever compiles them here learns it; and
    those that need not be compiled any more.

    Args:
        kernels: Different ones.
        processes: How many at most; None takes the usual number of threads.
        is_had: Asked when a kernel's turn comes, in any thread: whether somebody else has compiled it meanwhile.
    """
    python = python_program()
    most = min(default_threads(), MOST_PROCESSES) if processes is None else processes
    count = min(most, len(kernels)) if python else 0
    # Programs that start together with the same work each begin elsewhere, and find what the others have done.
    waiting: queue.SimpleQueue[StepKernel] = queue.SimpleQueue()
    for kernel in random.sample(list(kernels), len(kernels)):
        waiting.put(kernel)
    answers: _Answers = queue.SimpleQueue()
    children = [child for child in (_start(python) for _ in range(count)) if child]
    try:
        for child in children:
            threading.Thread(target=_ask, args=(child, waiting, answers, is_had), daemon=True).start()
        for _ in children:
            while (answer := answers.get()) is not None:
                yield answer
    finally:
        for child in children:
            child.kill()
            child.wait()


def python_program() -> str | None:
    """The interpreter to start for another process; None inside programs that only embed one."""
    name = Path(sys.executable or "").stem.lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return None
    return sys.executable


def _start(python: str | None) -> subprocess.Popen[bytes] | None:
    command = [str(python), "-c", _PROGRAM, json.dumps(sys.path)]
    pipe = subprocess.PIPE
    with contextlib.suppress(OSError):
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
    return None


def _ask(
    child: subprocess.Popen[bytes],
    waiting: queue.SimpleQueue[StepKernel],
    answers: _Answers,
    is_had: Callable[[StepKernel], bool],
) -> None:
    assert child.stdin is not None and child.stdout is not None
    try:
        with child.stdin, child.stdout:
            while True:
                kernel = waiting.get_nowait()
                if is_had(kernel):
                    continue
                pickle.dump(kernel, child.stdin)
                child.stdin.flush()
                code = pickle.load(child.stdout)
                if code is not None:
                    answers.put((kernel, code))
    except (queue.Empty, OSError, EOFError, ValueError, pickle.UnpicklingError):
        pass  # nothing is left, or the process has ended
    finally:
        answers.put(None)


def answer() -> None:
    """What the other process does: compile what it is asked for. None for what cannot be compiled."""
    # Whatever is printed while modules are imported must not come between answers.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, out)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while True:
        try:
            kernel: Any = pickle.load(requests)
        except EOFError:
            return
        try:
            code = compile_kernel(kernel)
        except Exception:  # noqa: BLE001  # said where the kernel is compiled once more
            code = None
        pickle.dump(code, answers)
        answers.flush()
