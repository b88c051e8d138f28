"""Calling one kernel: what operators of the execution provider, packing and tests do with the kernels of steps."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import numpy as np

from onnxgen.graph.cpu.compiled.control import LINE_BYTES
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS
from onnxgen.graph.cpu.step.crew import SCRATCH_BYTES, Entry, crew
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.table import StepShape, StepTable


def run_kernel(
    kernel: StepKernel,
    *,
    parts: int = 1,
    threads: int = 1,
    header: np.ndarray | None = None,
    **arguments: float,
) -> None:
    """Call a kernel on as many threads as there are parts and ``threads`` allows; see `StepTable.add`."""
    table = StepTable()
    table.add(kernel, parts=parts, **arguments)
    crew().run(table, table.counts(_NOTHING), _header(header), threads=min(parts, threads))


def run_parts(
    kernel: StepKernel,
    *,
    parts: int,
    order: Iterable[int] | None = None,
    header: np.ndarray | None = None,
    **arguments: float,
) -> None:
    """Call the parts of a kernel one after the other, in any order: what comes out must not depend on it."""
    table = StepTable()
    table.add(kernel, parts=parts, **arguments)
    words, head = table.words, _header(header)
    scratch = np.full(SCRATCH_BYTES + LINE_BYTES, 0xA5, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % LINE_BYTES
    call = Entry(int(words[0, 0]))
    for part in range(parts) if order is None else order:
        call(words.ctypes.data, head.ctypes.data, start, part, parts)


_NOTHING = StepShape(tokens=0, rows=0)


def _header(header: np.ndarray | None) -> np.ndarray:
    return _no_header() if header is None else header


@cache
def _no_header() -> np.ndarray:
    return np.zeros(HEADER_WORDS, np.int64)
