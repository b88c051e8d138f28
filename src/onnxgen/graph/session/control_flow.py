"""If and Loop: operators whose graphs the executor runs itself (Scan has its own file)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import TensorType, numpy_dtype
from onnxgen.graph.planner.aliasing import origins
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.running import Run

"""Makes the kernel of a control flow node from the routines of its graphs.

The kernel takes the run, the node's inputs, then the outer values that any of its graphs uses; every graph's
routine takes its own inputs followed by the same outer values.
"""


def if_kernel(node: NodeSpec, graphs: Mapping[str, Routine]) -> Kernel:
    """``If``, all versions: one of two graphs, chosen by a boolean of one element."""
    then, otherwise = graphs["then_branch"], graphs["else_branch"]

    def run(state: Run, condition: np.ndarray, *outer: Any) -> Any:
        return unpacked((then if condition.item() else otherwise)(state, *outer))

    first = len(node.inputs)
    aliases = {(output, first + place) for branch in (then, otherwise) for output, place in lent(branch)}
    return Kernel(run, may_alias=tuple(sorted(aliases)))


def loop_kernel(node: NodeSpec, graphs: Mapping[str, Routine]) -> Kernel:
    """``Loop``, all versions: at most ``M`` trips, as long as the condition holds; both are optional."""
    body = graphs["body"]
    num_inputs = len(node.inputs)
    num_carried = num_inputs - 2
    stacked = body.program.outputs[1 + num_carried :]
    trip_rank, condition_rank = (rank_of(body, index) for index in (0, 1))

    def run(state: Run, trips: np.ndarray | None, condition: np.ndarray | None, *rest: Any) -> Any:
        carried, outer = rest[:num_carried], rest[num_carried:]
        limit = None if trips is None else int(trips.item())
        going = True if condition is None else bool(condition.item())
        rows: list[list[np.ndarray]] = [[] for _ in stacked]
        trip = 0
        while going and (limit is None or trip < limit):
            state.check()
            going_in = np.full((1,) * condition_rank, True)
            going_out, *results = body(
                state, np.full((1,) * trip_rank, trip, np.int64), going_in, *carried, *outer
            )
            going = bool(going_out.item())
            carried = results[:num_carried]
            for row, value in zip(rows, results[num_carried:], strict=True):
                row.append(value)
            trip += 1
        if trip == 0:
            nothing = np.full((1,) * trip_rank, 0, np.int64), np.full((1,) * condition_rank, True)
            rows_out = empty_rows(body.output_types((*nothing, *carried, *outer))[1 + num_carried :])
        else:
            rows_out = map(np.stack, rows)
        return unpacked((*carried, *rows_out))

    return Kernel(run, may_alias=carried_aliases(body, num_carried, first=2, skipped=1))


def empty_rows(kinds: Sequence[TensorType]) -> list[np.ndarray]:
    """No rows of these types, each along a new first axis; a size that is not known is 0."""
    return [
        np.empty(
            (0, *(dim if isinstance(dim, int) else 0 for dim in kind.shape or ())),
            np.float32 if kind.dtype is ir.DataType.UNDEFINED else numpy_dtype(kind.dtype),
        )
        for kind in kinds
    ]


def lent(body: Routine) -> list[tuple[int, int]]:
    """Pairs of an output and an input of a graph whose memory it may be."""
    found = origins(body.program)
    return [
        (output, place)
        for output, number in enumerate(body.program.outputs)
        for place, given in enumerate(body.program.inputs)
        if given in found[number]
    ]


def carried_aliases(
    body: Routine, num_carried: int, *, first: int, skipped: int
) -> tuple[tuple[int, int], ...]:
    """Pairs of an output and an input of a node that carries values through a body.

    Without a trip each carried output is its initial value. A body that hands on memory of its inputs may move any of
    them to any output over several trips.

    Args:
        body: The body.
        num_carried: How many values it carries.
        first: The node's input with the first initial value.
        skipped: The body's outputs before the carried ones.
    """
    hands_on = any(skipped <= output < skipped + num_carried for output, _ in lent(body))
    num_inputs = first + len(body.program.inputs)
    return tuple(
        (output, given)
        for output in range(num_carried)
        for given in range(first, num_inputs)
        if hands_on or given == first + output
    )


def rank_of(body: Routine, index: int) -> int:
    """The rank that a graph declares for an input; 0 where it declares none."""
    kind = body.program.values[body.program.inputs[index]].type
    return len(kind.shape or ()) if isinstance(kind, TensorType) else 0


def unpacked(outputs: tuple[Any, ...]) -> Any:
    """Outputs as kernels return them: one alone, more as a tuple."""
    return outputs[0] if len(outputs) == 1 else outputs
