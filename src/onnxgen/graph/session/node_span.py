"""What a trace says of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from onnxgen.graph.planner.plan import Plan
from onnxgen.graph.session.running import Run


def node_spans(plan: Plan) -> Callable[..., AbstractContextManager[Callable[..., None]]]:
    """What a traced plan opens around each call: given the run, the call's index and its inputs.

    The block is told the outputs, which no one knows when it begins.
    """
    calls = plan.program.calls

    @contextmanager
    def span(run: Run, index: int, *inputs: Any) -> Iterator[Callable[..., None]]:
        call = calls[index]
        results: list[str] = []
        with run.tracer.span(
            call.spec.name or call.spec.op_type,
            "node",
            operator=str(call.spec),
            provider=call.provider,
            inputs=[described(value) for value in inputs],
            outputs=results,
            bytes_in=num_bytes(inputs),
        ):
            yield lambda *outputs: results.extend(map(described, outputs))

    return span


def described(value: Any) -> str:
    """``float32[2, 3]``, ``list of 2``, ``none``."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return f"list of {len(value)}" + (f" ({described(value[0])}, ...)" if value else "")
    return "none" if value is None else type(value).__name__


def num_bytes(values: Any) -> int:
    """Bytes of all arrays among the values."""
    return sum(value.nbytes for value in values if isinstance(value, np.ndarray))
