"""What a trace says of a node."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from onnxgen.graph.planner.plan import Plan
from onnxgen.graph.session.run_values import described, num_bytes
from onnxgen.graph.session.running import Run


def node_spans(plan: Plan) -> Callable[..., AbstractContextManager[Callable[..., None]]]:
    """What a traced plan opens around each call: given the run, the call's index and its inputs.

    The block is told the outputs, which no one knows when it begins; they are in the trace because the lists are
    read when the block ends.
    """
    calls = plan.program.calls

    @contextmanager
    def span(run: Run, index: int, *inputs: Any) -> Generator[Callable[..., None]]:
        call = calls[index]
        results: list[str] = []
        bytes_out: list[int] = []

        def saw(*outputs: Any) -> None:
            results.extend(map(described, outputs))
            bytes_out.append(num_bytes(outputs))

        with run.tracer.span(
            call.spec.name or call.spec.op_type,
            "node",
            operator=str(call.spec),
            provider=call.provider,
            inputs=[described(value) for value in inputs],
            outputs=results,
            bytes_in=num_bytes(inputs),
            bytes_out=bytes_out,
        ):
            yield saw

    return span
