"""A graph made ready to run: the main graph, or one inside a control flow operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.planner.plan import Form, Plan
from onnxgen.graph.planner.program import Program
from onnxgen.graph.planner.source import write_plan
from onnxgen.graph.session.failures import kernel_error
from onnxgen.graph.session.node_span import node_spans
from onnxgen.graph.session.running import Run

Function = Callable[..., tuple[Any, ...]]


class Routine:
    """Executes a program, as often as it is called and from several threads at once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._functions: dict[tuple[tuple[int, ...], Form], tuple[Plan, Function]] = {}

    def __call__(self, run: Run, *inputs: Any) -> tuple[Any, ...]:
        """Every output, given every input."""
        return self.compute(run, inputs, self.program.outputs)

    def compute(self, run: Run, inputs: tuple[Any, ...], outputs: tuple[int, ...]) -> tuple[Any, ...]:
        """Some outputs, given every input.

        Raises:
            KernelError: when a node fails.
            RunCancelledError: when the run was told to stop.
        """
        form = Form(stoppable=run.should_stop is not None, traced=run.tracer.enabled)
        plan, function = self.function(outputs, form)
        try:
            return function(run, *inputs)
        except Exception as error:
            raise_for = kernel_error(plan, error)
            if raise_for is None:
                raise
            raise raise_for from error

    def function(self, outputs: tuple[int, ...], form: Form) -> tuple[Plan, Function]:
        """The plan for these outputs, and the function that executes it; made at the first call."""
        found = self._functions.get((outputs, form))
        if found is None:
            plan = write_plan(self.program.only(outputs), form=form)
            found = self._functions[outputs, form] = plan, bind(plan)
        return found


def bind(plan: Plan) -> Function:
    """The function of a plan over its kernels and constants."""
    return plan.bind(
        kernels=[call.kernel.run for call in plan.program.calls],
        constants=list(plan.program.constants.values()),
        fresh=fresh,
        span=node_spans(plan),
    )


def fresh(value: Any) -> Any:
    """A copy that shares no array with ``value``."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [fresh(item) for item in value]
    if isinstance(value, dict):
        return {key: fresh(item) for key, item in value.items()}
    return value
