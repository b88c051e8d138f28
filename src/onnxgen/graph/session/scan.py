"""Scan: a graph over slices of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.session.control_flow import carried_aliases, empty_rows, unpacked
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.running import Run


def scan_kernel(node: NodeSpec, graphs: Mapping[str, Routine]) -> Kernel:
    """``Scan``: version 8 over batches with sequence lengths, later versions over any axis."""
    return _batched(node, graphs["body"]) if node.since_version == 8 else _over_axes(node, graphs["body"])


def _over_axes(node: NodeSpec, body: Routine) -> Kernel:
    num_inputs, num_scanned = len(node.inputs), int(node.attr("num_scan_inputs"))
    num_states = num_inputs - num_scanned
    num_outputs = len(body.program.outputs) - num_states
    axes_in = node.attr("scan_input_axes") or (0,) * num_scanned
    axes_out = node.attr("scan_output_axes") or (0,) * num_outputs
    backward_in = node.attr("scan_input_directions") or (0,) * num_scanned
    backward_out = node.attr("scan_output_directions") or (0,) * num_outputs

    def run(state: Run, *inputs: Any) -> Any:
        states, scanned, outer = inputs[:num_states], inputs[num_states:num_inputs], inputs[num_inputs:]
        slices = [_slices(*given) for given in zip(scanned, axes_in, backward_in, strict=True)]
        states, rows = _scan(state, body, states, slices, outer)
        results = [
            np.moveaxis(value[::-1] if backward else value, 0, axis)
            for value, axis, backward in zip(rows, axes_out, backward_out, strict=True)
        ]
        return unpacked((*states, *results))

    return Kernel(run, may_alias=carried_aliases(body, num_states, first=0, skipped=0))


def _batched(node: NodeSpec, body: Routine) -> Kernel:
    num_inputs, num_scanned = len(node.inputs), int(node.attr("num_scan_inputs"))
    num_states = num_inputs - 1 - num_scanned
    backward = node.attr("directions") or (0,) * num_scanned

    def run(state: Run, lengths: np.ndarray | None, *inputs: Any) -> Any:
        states, scanned = inputs[:num_states], inputs[num_states : num_inputs - 1]
        batch, longest = scanned[0].shape[:2]
        parts = [
            _scan(
                state, body, [value[row] for value in states],
                [_slices(value[row, :length], 0, flag) for value, flag in zip(scanned, backward, strict=True)],
                inputs[num_inputs - 1 :],
            )
            for row, length in enumerate(_checked(lengths, batch, longest))
        ]  # fmt: skip
        finals = [np.stack(values) for values in zip(*(part[0] for part in parts), strict=True)]
        results = [
            np.stack([_padded(value, longest) for value in values])
            for values in zip(*(part[1] for part in parts), strict=True)
        ]
        return unpacked((*finals, *results))

    return Kernel(run)


def _scan(
    state: Run, body: Routine, states: Sequence[Any], scanned: Sequence[np.ndarray], outer: Sequence[Any]
) -> tuple[list[Any], list[np.ndarray]]:
    """Final states and stacked outputs of the body over the first axis of each scanned input."""
    lengths = {len(value) for value in scanned}
    if len(lengths) != 1:
        raise ValueError(f"its scan inputs have {sorted(lengths)} slices; they must have the same number")
    num_states = len(states)
    rows: list[list[np.ndarray]] = [[] for _ in body.program.outputs[num_states:]]
    for step in range(lengths.pop()):
        state.check()
        results = body(state, *states, *(np.asarray(value[step]) for value in scanned), *outer)
        states = results[:num_states]
        for row, value in zip(rows, results[num_states:], strict=True):
            row.append(value)
    if rows and not rows[0]:
        slices = [np.empty(value.shape[1:], value.dtype) for value in scanned]
        return list(states), empty_rows(body.output_types((*states, *slices, *outer))[num_states:])
    return list(states), [np.stack(row) for row in rows]


def _slices(value: np.ndarray, axis: int, backward: int) -> np.ndarray:
    """What is scanned, along the first axis, in the order in which it is."""
    moved = np.moveaxis(value, axis, 0)
    return moved[::-1] if backward else moved


def _padded(value: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros((length, *value.shape[1:]), value.dtype)
    result[: len(value)] = value
    return result


def _checked(lengths: np.ndarray | None, batch: int, longest: int) -> list[int]:
    if lengths is None:
        return [longest] * batch
    if lengths.shape != (batch,) or np.any((lengths < 0) | (lengths > longest)):
        raise ValueError(
            f"sequence_lens is {lengths.tolist()}; it must have {batch} numbers from 0 to {longest}"
        )
    return lengths.tolist()
