"""From one watched run to a plan over an arena."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from onnxgen.foundations.recent import Recent
from onnxgen.graph.planner.layout import ArrayType, Layout, Refuted, lay_out
from onnxgen.graph.planner.plan import Form, Plan
from onnxgen.graph.planner.prediction import ShapePredictor
from onnxgen.graph.planner.program import Call, Program
from onnxgen.graph.planner.source import write_plan
from onnxgen.graph.session.frames import Allocate, ArenaBudget, FramePool, NotViewsError

_LOG = logging.getLogger(__name__)

_MOST_ATTEMPTS = 4
"""How often a layout is made anew, because a view turned out to be a copy, before a signature stays on the heap."""

_MOST_PLANS = 32
"""Plans that are kept: one for each choice of outputs, of which a caller may have many."""


class Preparation:
    """Makes frames of one program, and learns from what it sees.

    Args:
        program: The whole program.
        predictor: What inference says of it.
        allocate: Gives the memory of arenas.
        budget: Limits the memory of arenas.
        reuse: Whether values may share memory with values of other times.
    """

    def __init__(
        self,
        program: Program,
        predictor: ShapePredictor,
        allocate: Allocate,
        *,
        budget: ArenaBudget,
        reuse: bool,
    ) -> None:
        self.refuted = Refuted()
        self.clock = budget.clock
        self._program = program
        self._predictor = predictor
        self._allocate = allocate
        self._budget = budget
        self._reuse = reuse
        self._plans = Recent[tuple[tuple[int, ...], tuple[int, ...], Form], Plan](_MOST_PLANS)
        self._lock = Lock()

    def frames(
        self,
        outputs: tuple[int, ...],
        given: Sequence[int],
        form: Form,
        input_shapes: Sequence[tuple[int, ...]],
        observed: Mapping[int, ArrayType],
    ) -> tuple[Plan, FramePool] | None:
        """Frames for inputs of these shapes; None when values of such runs cannot be planned.

        Args:
            outputs: What the plan computes.
            given: Those of them that the caller has memory for.
            form: The plan's form.
            input_shapes: Shapes of the program's inputs.
            observed: Types that the arrays of a run with such inputs had.
        """
        predicted = self._predictor.predict(input_shapes)
        if predicted is None:
            return None
        with self._lock:
            types = self._believed(predicted, observed) | self._bound(given, observed)
            for _ in range(_MOST_ATTEMPTS):
                plan = self._plan(outputs, given, form, types)
                assert plan.layout is not None
                if not plan.layout.written:
                    return None
                if self._fits(plan.layout, types):
                    try:
                        return plan, FramePool(plan, types, self._allocate, self._budget)
                    except NotViewsError as error:
                        self.refuted.views |= error.values
                    except Exception:  # noqa: BLE001 - no memory, or a view that cannot be made: the heap does without
                        _LOG.debug("no frame for %s", self._program.name, exc_info=True)
                        return None
                self._plans.clear()
        return None

    def nominal(self, form: Form) -> Plan | None:
        """The plan for all outputs as it would be made, every symbol taken for some size; None without predictions."""
        predicted = self._predictor.predict_from(dict.fromkeys(self._predictor.symbols, 16))
        if predicted is None:
            return None
        with self._lock:
            types = {
                value: (shape, dtype)
                for value, shape in predicted.items()
                if (dtype := self._predictor.dtype(value)) is not None
            }
            return self._plan(self._program.outputs, (), form, types)

    def _believed(
        self, predicted: Mapping[int, tuple[int, ...]], observed: Mapping[int, ArrayType]
    ) -> dict[int, ArrayType]:
        """Types of values that were as predicted; the others are remembered as not to be planned, ever."""
        wrong = {value for value, (shape, _) in observed.items() if predicted.get(value, shape) != shape}
        if not wrong <= self.refuted.shapes:
            self.refuted.shapes |= wrong
            self._plans.clear()
        return {
            value: kind
            for value, kind in observed.items()
            if value in predicted and value not in self.refuted.shapes
        }

    def _bound(self, given: Sequence[int], observed: Mapping[int, ArrayType]) -> dict[int, ArrayType]:
        """Types of bound outputs that nobody can predict: their kernels tell when they do not fit."""
        checked = {
            value for call in self._program.calls if call.kernel.checks_outputs for value in call.outputs
        }
        return {value: observed[value] for value in given if value in checked}

    def _plan(
        self, outputs: tuple[int, ...], given: Sequence[int], form: Form, types: Mapping[int, ArrayType]
    ) -> Plan:
        key = (outputs, tuple(given), form)
        found = self._plans.get(key)
        if found is None:
            program = self._program.only(outputs)
            layout = lay_out(program, types, refuted=self.refuted, given=given, reuse=self._reuse)
            found = write_plan(program, form=form, layout=layout)
            self._plans.put(key, found)
        return found

    def _fits(self, layout: Layout, types: Mapping[int, ArrayType]) -> bool:
        """Whether a layout, made for other sizes perhaps, holds for these types."""
        apart = {
            buffer.value
            for buffer in layout.buffers
            if buffer.over is not None and types.get(buffer.value) != types.get(buffer.over)
        }
        self.refuted.in_place |= apart
        missing = {buffer.value for buffer in layout.buffers if buffer.value not in types}
        self.refuted.shapes |= missing
        return not apart and not missing


def watched_kernels(program: Program, types: dict[int, ArrayType]) -> list[Callable[..., Any]]:
    """The program's kernels, each of which notes the types of the arrays that it makes."""
    return [_watched(call, types) for call in program.calls]


def _watched(call: Call, types: dict[int, ArrayType]) -> Callable[..., Any]:
    kernel, outputs = call.kernel.run, call.outputs

    def run(*inputs: Any) -> Any:
        result = kernel(*inputs)
        for number, value in zip(outputs, result if len(outputs) > 1 else (result,), strict=True):
            if isinstance(value, np.ndarray):
                types[number] = (value.shape, value.dtype)
        return result

    return run
