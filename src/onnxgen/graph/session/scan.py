"""Scan: a graph over slices of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.session.control_flow import carried_aliases, stack, unpacked
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
            for row, length in enumerate([longest] * batch if lengths is None else lengths.tolist())
        ]  # fmt: skip
        finals = [np.stack(values) for values in zip(*(part[0] for part in parts), strict=True)]
        results = [
            np.stack([_padded(value, longest) for value in values])
            for values in zip(*(part[1] for part in parts), strict=True)
        ]
        return unpacked((*finals, *results))

    return Kernel(run)


def _scan(
    state: Run, body: Routine, states: Any, slices: list[list[np.ndarray]], outer: Any
) -> tuple[list[Any], list[np.ndarray]]:
    types = [body.program.values[value].type for value in body.program.outputs[len(states) :]]
    rows: list[list[np.ndarray]] = [[] for _ in types]
    for values in zip(*slices, strict=True):
        state.check()
        results = body(state, *states, *values, *outer)
        states = results[: len(states)]
        for row, value in zip(rows, results[len(states) :], strict=True):
            row.append(value)
    return list(states), list(map(stack, rows, types))


def _slices(value: np.ndarray, axis: int, backward: int) -> list[np.ndarray]:
    moved = np.moveaxis(value, axis, 0)
    return [np.asarray(item) for item in (moved[::-1] if backward else moved)]


def _padded(value: np.ndarray, length: int) -> np.ndarray:
    result = np.zeros((length, *value.shape[1:]), value.dtype)
    result[: len(value)] = value
    return result
