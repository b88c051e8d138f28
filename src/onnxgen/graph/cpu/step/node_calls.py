"""Kernel calls of one node of a graph: made ready once, then run with the addresses of each call."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from onnxgen.foundations.after_fork import in_forked_children
from onnxgen.foundations.cpuinfo import default_threads
from onnxgen.graph.cpu.aligned_memory import LINE_BYTES, aligned
from onnxgen.graph.cpu.compiled.control import ROW_WORDS, STATE_ROW_BYTES
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS, Header
from onnxgen.graph.cpu.step.crew import SCRATCH_BYTES, Entry, crew
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.table import StepTable
from onnxgen.graph.ep.threads import most_threads

_WORTH_SHARING_S = 20e-6
"""Shorter work is done before another thread has begun."""

_TOKENS, _TOKEN_IDS = int(Header.TOKENS), int(Header.TOKEN_IDS)
_ROW_BYTES = 8 * ROW_WORDS


class NodeCalls:
    """Some kernels, called one after the other. May be run from several threads.

    Args:
        *kernels: What is called, in order.
    """

    def __init__(self, *kernels: StepKernel) -> None:
        self._table = StepTable()
        for kernel in kernels:
            self._table.add(kernel, **dict.fromkeys(kernel.arguments, 0))
        self._words = self._table.words
        self._ends = [1 + len(kernel.arguments) for kernel in kernels]
        self._entries = [Entry(int(code)) for code in self._words[:, 0]]
        self._turn = threading.Lock()
        in_forked_children(self, NodeCalls._renew_turn)

    def _renew_turn(self) -> None:
        self._turn = threading.Lock()

    def run(
        self,
        arguments: Sequence[Sequence[int]],
        parts: Sequence[int],
        *,
        seconds: float,
        rows: int = 0,
        token_ids: int = 0,
    ) -> None:
        """Call the kernels.

        Args:
            arguments: For each kernel the values of its arguments, in their order.
            parts: Parts of each where several threads work on it.
            seconds: Roughly what one thread takes for all: whether others are asked to help.
            rows: What kernels find as `Header.TOKENS`.
            token_ids: The address that they find as `Header.TOKEN_IDS`.
        """
        own = workspace()
        own.header[_TOKENS], own.header[_TOKEN_IDS] = rows, token_ids
        threads = most_threads(cores()) if seconds > _WORTH_SHARING_S else 1
        if threads > 1:
            with self._turn:
                self._fill(self._words, arguments)
                crew().run(self._table, np.array(parts, np.int64), own.header, threads=threads)
            return
        words = self._words.copy()
        self._fill(words, arguments)
        place = words.ctypes.data
        for entry in self._entries:
            entry(place, own.header_address, own.scratch_address, 0, 1)
            place += _ROW_BYTES

    def _fill(self, words: np.ndarray, arguments: Sequence[Sequence[int]]) -> None:
        for row, end, values in zip(words, self._ends, arguments, strict=True):
            row[1:end] = values


class CallList:
    """Kernel calls that differ in number from run to run. May be used from several threads; each run makes its own rows.

    Args:
        *kernels: Kernels that are called, by their place here.
    """

    def __init__(self, *kernels: StepKernel) -> None:
        table = StepTable()
        for kernel in kernels:
            table.add(kernel, **dict.fromkeys(kernel.arguments, 0))
        self._words = table.words
        self._entries = [Entry(int(code)) for code in self._words[:, 0]]

    def rows(self, kernels: Sequence[int]) -> np.ndarray:
        """int64 ``[calls, ROW_WORDS]`` for calls of these kernels in order; arguments, from word 1 on, are to be filled in."""
        return self._words[list(kernels)]

    def run(
        self,
        words: np.ndarray,
        kernels: Sequence[int],
        parts: Sequence[int],
        *,
        header: np.ndarray,
        seconds: float,
    ) -> None:
        """Call the kernels.

        Args:
            words: From `rows`, filled in.
            kernels: As they were given there.
            parts: Parts of each call where several threads work on it.
            header: Of the step; may be longer than a header is.
            seconds: Roughly what one thread takes for all.
        """
        threads = most_threads(cores()) if seconds > _WORTH_SHARING_S else 1
        if threads > 1:
            crew().run(_Rows(words), np.array(parts, np.int64), header, threads=threads)
            return
        place, step, scratch = words.ctypes.data, header.ctypes.data, workspace().scratch_address
        for kernel in kernels:
            self._entries[kernel](place, step, scratch, 0, 1)
            place += _ROW_BYTES


class _Rows(StepTable):
    """A table of rows that are made already."""

    def __init__(self, words: np.ndarray) -> None:
        super().__init__()
        self._rows = [[]] * len(words)
        self._words, self._state = words, np.zeros((len(words) * STATE_ROW_BYTES + LINE_BYTES) // 8, np.int64)


class Workspace:
    """Memory of a thread for the kernels of one node after the other.

    Attributes:
        header: Of steps, int64 ``[HEADER_WORDS]``.
        header_address: Where it lies.
        scratch_address: Scratch memory of kernels.
    """

    def __init__(self) -> None:
        self.header = np.zeros(HEADER_WORDS, np.int64)
        self.header_address = self.header.ctypes.data
        self._scratch = aligned(SCRATCH_BYTES)
        self.scratch_address = self._scratch.ctypes.data
        self._memory = aligned(LINE_BYTES)
        self._start = self._memory.ctypes.data

    def addresses(self, *sizes: int) -> list[int]:
        """Places of so many bytes, each on cache lines of its own; what lies there is anything, until the next call."""
        place, places = self._start, list[int]()
        for size in sizes:
            places.append(place)
            place += -(-size // LINE_BYTES) * LINE_BYTES
        if place > self._start + self._memory.nbytes:
            self._memory = aligned(place - self._start)
            self._start = self._memory.ctypes.data
            return self.addresses(*sizes)
        return places


class _Workspaces(threading.local):
    own: Workspace | None = None


@cache
def _workspaces() -> _Workspaces:
    return _Workspaces()


def workspace() -> Workspace:
    """The calling thread's workspace."""
    spaces = _workspaces()
    if spaces.own is None:
        spaces.own = Workspace()
    return spaces.own


@cache
def cores() -> int:
    """Physical cores that this process may use; asked for once."""
    return default_threads()
