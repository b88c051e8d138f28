"""Run a call and bring the rows that were asked for to where they belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from onnxgen.backends.base import Float32Array, Int64Array, Step
from onnxgen.backends.ort.graph_edit.names import Rows
from onnxgen.backends.ort.ports import Ports
from onnxgen.backends.ort.session import OrtSession
from onnxgen.foundations.reused_arrays import ReusedArrays

_COPIED_LOGITS = 1 << 18  # elements, 1 MiB


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Rows of one call whose logits are wanted.

    Attributes:
        rows: int64 ``[wanted, 2]``, pairs (batch, seq) in the call's own layout.
        results: int64 ``[wanted]``, where they go in the step's output.
        whole: Whether they are the step's whole output, in its order.
    """

    rows: Int64Array
    results: Int64Array
    whole: bool

    def head_rows(self, *, want_logits: bool) -> Int64Array:
        """Which of them go through the head, all or none: int64 ``[1, rows, 2]``, pairs (0, row)."""
        count = self.results.size if want_logits else 0
        return np.stack([np.zeros(count, np.int64), np.arange(count)], axis=-1)[None]


class StepResults:
    """The output of a step while its calls fill it in.

    Attributes:
        logits: float32 ``[wanted, vocab]``, or without rows if none were asked for.
        hidden_states: float32 ``[wanted, hidden]`` if they were asked for and a call gave some.
    """

    def __init__(self, step: Step, vocab_size: int) -> None:
        self._num_rows = step.logits_rows.size
        self.want_hidden_states, self.want_logits = step.want_hidden_states, step.want_logits
        self.logits: Float32Array = np.empty(
            (self._num_rows if step.want_logits else 0, vocab_size), np.float32
        )
        self.hidden_states: Float32Array | None = None

    def fill(
        self,
        outputs: Sequence[npt.NDArray[Any]],
        *,
        computed: Rows,
        wanted: WantedRows,
        has_logits: bool = True,
    ) -> None:
        """Take the wanted rows out of a call's logits and, behind them, hidden states."""
        if has_logits and self.want_logits:
            self.logits[wanted.results] = _pick(outputs[0], computed, wanted)
        if self.want_hidden_states:
            hidden = _pick(outputs[1], computed, wanted)
            if self.hidden_states is None:
                self.hidden_states = np.empty((self._num_rows, hidden.shape[-1]), np.float32)
            self.hidden_states[wanted.results] = hidden


class BoundOutputs:
    """The logits and hidden states of one binding, on whose inputs and caches it is called.

    Repeated decode steps hand out the very array that is bound, and bind another one only while somebody
    holds on to the last result.

    Args:
        session: The session of ``binding``.
        binding: All caches are bound, in the order of the ports, and nothing else is yet.
        ports: The graph's inputs and outputs.
        computed: Which positions the graph gives logits of.
        want_hidden_states: Also bring the hidden states.
    """

    def __init__(
        self,
        session: OrtSession,
        binding: ort.IOBinding,
        ports: Ports,
        *,
        computed: Rows,
        want_hidden_states: bool,
    ) -> None:
        self._session, self._binding, self._ports, self._computed = session, binding, ports, computed
        self._want_hidden_states = want_hidden_states
        self._arrays = ReusedArrays()
        # what the logits are bound to: held as long as it is bound
        self._bound: Float32Array | None = None
        self._address, self._shape = 0, (0, 0)
        self._whole = False  # whether the last logits were the whole output of a step

    def run(self, wanted: WantedRows, results: StepResults) -> None:
        """Run and fill in the wanted rows.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        selected = self._computed is Rows.WANTED
        target = self._bind_logits(wanted, results) if selected else None
        # what ONNX Runtime allocates is bound anew, or it would write into the last run's result
        if not selected:
            self._binding.bind_output(self._ports.logits)
        if self._want_hidden_states:
            assert self._ports.hidden_states is not None
            self._binding.bind_output(self._ports.hidden_states)
        self._session.run(self._binding)
        if target is not None and target is not results.logits and results.want_logits:
            if wanted.whole:
                results.logits[...] = target
            else:
                results.logits[wanted.results] = target
        if not selected or self._want_hidden_states:
            # outputs come in the order in which they were bound: caches, logits, hidden states
            outputs = [v.numpy() for v in self._binding.get_outputs()[len(self._ports.states) :]]
            results.fill(outputs, computed=self._computed, wanted=wanted, has_logits=not selected)

    @property
    def can_run_again(self) -> bool:
        """Whether the last run left everything bound for another one with the same rows wanted."""
        return self._bound is not None and not self._want_hidden_states and self._whole

    def run_again(self) -> Float32Array:
        """Run with what is bound; returns the logits, float32 ``[wanted, vocab]``, the caller's to keep.

        Raises:
            BackendError: ONNX Runtime failed.
        """
        logits = self._bind(self._free_array(self._shape))
        self._session.run(self._binding)
        return logits

    def _bind_logits(self, wanted: WantedRows, results: StepResults) -> Float32Array:
        """Bind the array that the logits of this run are written to."""
        shape = (wanted.results.size if results.want_logits else 0, results.logits.shape[1])
        self._whole = wanted.whole and results.want_logits
        # few logits are copied, since binding another array takes longer
        direct = wanted.whole and shape[0] * shape[1] > _COPIED_LOGITS
        return self._bind(results.logits if direct else self._free_array(shape))

    def _free_array(self, shape: tuple[int, int]) -> Float32Array:
        """An array that nobody holds: the bound one, if the caller has dropped it."""
        self._bound = None
        return self._arrays.take(shape)

    def _bind(self, target: Float32Array) -> Float32Array:
        address: int = target.__array_interface__["data"][0]
        if address != self._address or target.shape != self._shape:
            # by address, and not as a value, which would itself hold the array
            self._binding.bind_output(
                self._ports.logits,
                device_type="cpu",
                device_id=0,
                element_type=np.float32,
                shape=[1, *target.shape],
                buffer_ptr=address,
            )
            self._address, self._shape = address, (target.shape[0], target.shape[1])
        self._bound = target
        return target


def _pick(values: npt.NDArray[Any], computed: Rows, wanted: WantedRows) -> npt.NDArray[Any]:
    if computed is Rows.WANTED:
        return values[0]  # [1, wanted, width]
    if computed is Rows.LAST:
        return values.reshape(values.shape[0], -1, values.shape[-1])[wanted.rows[:, 0], -1]
    return values[wanted.rows[:, 0], wanted.rows[:, 1]]  # [batch, seq, width]
