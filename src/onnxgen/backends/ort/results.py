"""Run a call and bring the rows that were asked for to where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import Float32Array, Int64Array
from onnxgen.backends.ort.graph_edit.names import LOGITS_ROWS, Rows
from onnxgen.backends.ort.ports import Ports
from onnxgen.backends.ort.session import OrtSession


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows of one call whose logits are wanted.

    Attributes:
        rows: int64 ``[wanted, 2]``, pairs (batch, seq) in the call's own layout.
        results: int64 ``[wanted]``, where they go in the step's output.
    """

    rows: Int64Array
    results: Int64Array


class StepResults:
    """The output of a step while its calls fill it in.

    Attributes:
        logits: float32 ``[wanted, vocab]``.
        hidden_states: float32 ``[wanted, hidden]`` if they were asked for and a call gave some.
    """

    def __init__(self, num_rows: int, vocab_size: int, *, want_hidden_states: bool) -> None:
        self.logits: Float32Array = np.empty((num_rows, vocab_size), np.float32)
        self.hidden_states: Float32Array | None = None
        self.want_hidden_states = want_hidden_states

    def run_call(
        self, session: OrtSession, binding: ort.IOBinding, ports: Ports, *, computed: Rows, wanted: WantedRows
    ) -> None:
        """Bind logits and hidden states, run, and fill in the wanted rows.

        Args:
            session: The session of ``binding``.
            binding: All inputs but the row selection are bound, and all caches, in the order of the ports.
            ports: The graph's inputs and outputs.
            computed: Which positions the graph gives logits of.
            wanted: Rows of this call.
        """
        target = self._target(wanted) if computed is Rows.WANTED else None
        if target is None:
            binding.bind_output(ports.logits)
        else:
            binding.bind_cpu_input(LOGITS_ROWS, np.ascontiguousarray(wanted.rows)[None])
            binding.bind_ortvalue_output(ports.logits, ort.OrtValue.ortvalue_from_numpy(target[None]))
        if self.want_hidden_states:
            assert ports.hidden_states is not None
            binding.bind_output(ports.hidden_states)
        session.run(binding)
        if target is not None and not np.shares_memory(target, self.logits):
            self.logits[wanted.results] = target
        if target is None or self.want_hidden_states:
            # outputs come in the order in which they were bound: caches, logits, hidden states
            outputs = [v.numpy() for v in binding.get_outputs()[len(ports.states) :]]
            self.fill(outputs, computed=computed, wanted=wanted, has_logits=target is None)

    def fill(
        self,
        outputs: Sequence[npt.NDArray[Any]],
        *,
        computed: Rows,
        wanted: WantedRows,
        has_logits: bool = True,
    ) -> None:
        """Take the wanted rows out of a call's logits and, behind them, hidden states."""
        if has_logits:
            self.logits[wanted.results] = _pick(outputs[0], computed, wanted)
        if self.want_hidden_states:
            hidden = _pick(outputs[1], computed, wanted)
            if self.hidden_states is None:
                self.hidden_states = np.empty((self.logits.shape[0], hidden.shape[-1]), np.float32)
            self.hidden_states[wanted.results] = hidden

    def _target(self, wanted: WantedRows) -> Float32Array:
        size = wanted.results.size
        if size == self.logits.shape[0] and (np.diff(wanted.results) > 0).all():
            return self.logits
        return np.empty((size, self.logits.shape[1]), np.float32)


def _pick(values: npt.NDArray[Any], computed: Rows, wanted: WantedRows) -> npt.NDArray[Any]:
    if computed is Rows.WANTED:
        return values[0]  # [1, wanted, width]
    if computed is Rows.LAST:
        return values.reshape(values.shape[0], -1, values.shape[-1])[wanted.rows[:, 0], -1]
    return values[wanted.rows[:, 0], wanted.rows[:, 1]]  # [batch, seq, width]
