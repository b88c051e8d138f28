"""The table of a step: its kernel calls in order, each cut into parts by the shape of the step."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgen.graph.cpu.compiled.control import LINE_BYTES, ROW_WORDS, STATE_ROW_BYTES
from onnxgen.graph.cpu.step.code_store import CodeStore, default_store
from onnxgen.graph.cpu.step.kernel import StepKernel


@dataclass(frozen=True, slots=True)
class StepShape:
    """What the parts of a step depend on.

    Attributes:
        tokens: Packed tokens of the pass.
        rows: Rows whose logits are wanted.
        items: Work items of attention.
        given: Tokens whose embeddings are given.
    """

    tokens: int
    rows: int
    items: int = 0
    given: int = 0


Parts = int | Callable[[StepShape], int]
"""Parts of a call: always the same, or by the shape. 0: the call is left out."""


class StepTable:
    """Kernel calls in order. Addresses in it must outlive it; `keep` holds what would not.

    Args:
        store: Where code comes from; None takes the process's own.
    """

    def __init__(self, store: CodeStore | None = None) -> None:
        self._store = store or default_store()
        self._rows: list[list[int]] = []
        self._parts: list[Parts] = []
        self._kept: list[Any] = []
        self.labels: list[str] = []
        self.kernels: list[StepKernel] = []
        self._words: np.ndarray | None = None
        self._state: np.ndarray | None = None

    def add(self, kernel: StepKernel, label: str = "", /, *, parts: Parts = 1, **arguments: float) -> int:
        """Append a call; returns its row's number.

        Args:
            kernel: What to call.
            parts: How many parts its work has.
            label: What reports call it; empty takes the name of the kernel.
            **arguments: A value for each of the kernel's arguments: an int64, or a float, which becomes float32 bits.
        """
        missing, unknown = set(kernel.arguments) - arguments.keys(), arguments.keys() - set(kernel.arguments)
        assert not missing and not unknown, (
            f"{kernel.name}: missing {sorted(missing)}, unknown {sorted(unknown)}"
        )
        # The code's address comes later: kernels that must be compiled are compiled together.
        words = [0, *(_word(arguments[key]) for key in kernel.arguments)]
        assert len(words) <= ROW_WORDS, f"{kernel.name} has {len(words) - 1} arguments, {ROW_WORDS - 1} fit"
        self._rows.append([*words, *[0] * (ROW_WORDS - len(words))])
        self._parts.append(parts)
        self.labels.append(label or kernel.name)
        self.kernels.append(kernel)
        self._words = None
        return len(self._rows) - 1

    def keep(self, *held: Any) -> None:
        """Hold arrays that rows point into."""
        self._kept += held

    def set(self, row: int, argument: str, value: float) -> None:
        """Change an argument of a row."""
        place = 1 + self.kernels[row].arguments.index(argument)
        self._rows[row][place] = _word(value)
        if self._words is not None:
            self._words[row, place] = _word(value)

    def __len__(self) -> int:
        return len(self._rows)

    def load(self) -> None:
        """Have the code of all calls, which the first run would wait for otherwise: compiled, where it is missing."""
        assert len(self.words) == len(self)

    @property
    def words(self) -> np.ndarray:
        """int64 ``[rows, ROW_WORDS]``. The first time all code is loaded, and compiled where it is missing."""
        if self._words is None:
            self._words = np.array(self._rows, np.int64).reshape(-1, ROW_WORDS)
            self._words[:, 0] = self._store.addresses(self.kernels)
            self._state = np.zeros((len(self._rows) * STATE_ROW_BYTES + LINE_BYTES) // 8, np.int64)
        return self._words

    @property
    def state(self) -> np.ndarray:
        """Where the counters of the rows lie; once `words` was asked for."""
        assert self._state is not None
        return self._state

    @property
    def state_address(self) -> int:
        """The counters of the rows, on cache lines of their own."""
        return -(-self.state.ctypes.data // LINE_BYTES) * LINE_BYTES

    def counts(self, shape: StepShape) -> np.ndarray:
        """int64 ``[rows]``: the parts of each row for a shape."""
        return np.array(
            [parts if isinstance(parts, int) else parts(shape) for parts in self._parts], np.int64
        )


def _word(value: float) -> int:
    if isinstance(value, float):
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    return int(value)
