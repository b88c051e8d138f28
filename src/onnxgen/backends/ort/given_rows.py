"""Rows that steps give for their tokens (`HIDDEN_STATES`), for calls of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import Int64Array, Step
from onnxgen.backends.ort.ports import RowPort


def rows_of(ports: Sequence[RowPort], step: Step, tokens: Int64Array) -> dict[str, npt.NDArray[Any]]:
    """What a call is fed: for each port ``[batch, seq, width]``, zeros where the step gives nothing.

    Args:
        ports: Inputs with a row for every token.
        step: The step.
        tokens: Which of the step's tokens the call has, int64 ``[batch, seq]``.
    """
    found: dict[str, npt.NDArray[Any]] = {}
    for port in ports:
        given = step.inputs.get(port.role)
        rows = np.zeros((*tokens.shape, port.width), np.float32) if given is None else given[tokens]
        found[port.name] = rows.astype(port.dtype, copy=False)
    return found


def bind_rows(binding: ort.IOBinding, ports: Sequence[RowPort], step: Step, tokens: Int64Array) -> None:
    """Bind what `rows_of` gives."""
    for name, rows in rows_of(ports, step, tokens).items():
        binding.bind_cpu_input(name, rows)
