"""A graph made ready to run: the main graph, or one inside a control flow operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from onnxgen.foundations.recent import Recent
from onnxgen.graph.ir.types import UNKNOWN, TensorType
from onnxgen.graph.planner.layout import ArrayType
from onnxgen.graph.planner.plan import Form, Plan
from onnxgen.graph.planner.prediction import ShapePredictor
from onnxgen.graph.planner.program import Program
from onnxgen.graph.planner.source import write_plan
from onnxgen.graph.session.failures import raise_named
from onnxgen.graph.session.frames import FramePool, Function, HeapFrame
from onnxgen.graph.session.node_span import node_spans
from onnxgen.graph.session.overlap import apart, same_memory
from onnxgen.graph.session.preparation import Preparation, watched_kernels
from onnxgen.graph.session.run_values import fresh
from onnxgen.graph.session.running import PLAIN, Run

_MOST_PREPARED = 32
"""Signatures whose frames are kept, as far as their arenas fit; the least recently used go first."""

_MOST_SEEN = 64
"""Signatures that are remembered as seen once."""

_MOST_FUNCTIONS = 32
"""Plans over the heap that are kept: one for each choice of outputs, of which a caller may have many."""

Key = tuple[Any, ...]


class Routine:
    """Executes a program, as often as it is called and from several threads at once.

    The first run with inputs of some types allocates every value. The second does so too, and is watched; from the
    third on, values whose shapes follow from those of the inputs live in an arena, where there are any. So inputs that
    grow with every run cost nothing extra.

    Args:
        program: The graph.
        predictor: What inference says of it.
        preparation: Makes plans over arenas; None when every run shall allocate.
        lends: Whether outputs may be memory of inputs: the caller copies them where it matters.
    """

    def __init__(
        self,
        program: Program,
        predictor: ShapePredictor,
        preparation: Preparation | None,
        *,
        lends: bool = False,
    ) -> None:
        self.program = program
        self._predictor = predictor
        self._preparation = preparation
        self._functions = Recent[tuple[tuple[int, ...], Form], tuple[Plan, Function]](_MOST_FUNCTIONS)
        self._forms = [
            Form(stoppable=stoppable, traced=traced, lends=lends)
            for traced in (False, True)
            for stoppable in (False, True)
        ]
        self._prepared: dict[Key, tuple[Plan, FramePool | HeapFrame]] = {}
        self._seen = Recent[Key, bool](_MOST_SEEN)
        self._lock = Lock()
        self._over = _outputs_over_inputs(program)

    def __call__(self, run: Run, *inputs: Any) -> tuple[Any, ...]:
        """Every output, given every input."""
        return self.compute(run, inputs, self.program.outputs)

    def compute(
        self,
        run: Run,
        inputs: tuple[Any, ...],
        outputs: tuple[int, ...],
        given: Mapping[int, np.ndarray] | None = None,
    ) -> tuple[Any, ...]:
        """Some outputs, given every input.

        Args:
            run: Cancellation and trace.
            inputs: Every input, in order.
            outputs: Numbers of the wanted values.
            given: Arrays that outputs may be written into. An output that is not that very array in the result
                has to be copied there by the caller.

        Raises:
            KernelError: when a node fails.
            RunCancelledError: when the run was told to stop.
        """
        key = None
        if self._preparation is not None:
            try:
                key = (outputs, run.mode, *[(value.shape, value.dtype) for value in inputs])
            except AttributeError:
                pass  # a list or None among the inputs: values of such runs are not planned
            else:
                if given:
                    given = _writable(given, inputs, self._over)
                    key = (*key, *[(number, array.shape, array.dtype) for number, array in given.items()])
                found = self._prepared.get(key)
                if found is not None:
                    return self._run_prepared(found, run, inputs, given)
        return self._run_on_heap(key, run, inputs, outputs, given)

    def output_types(self, inputs: tuple[Any, ...]) -> list[TensorType]:
        """Types of the outputs for such inputs, as far as inference can say it; tensors all of them."""
        try:
            predicted = self._predictor.predict([value.shape for value in inputs]) or {}
        except AttributeError:
            predicted = {}
        kinds = [(number, self.program.values[number].type) for number in self.program.outputs]
        return [
            TensorType(kind.dtype, predicted.get(number, kind.shape))
            if isinstance(kind, TensorType)
            else UNKNOWN
            for number, kind in kinds
        ]

    def plan(self) -> Plan:
        """The plan for all outputs, for people."""
        form = self._forms[PLAIN.mode]
        nominal = self._preparation.nominal(form) if self._preparation else None
        return nominal or self._function(self.program.outputs, form)[0]

    def _run_prepared(
        self,
        found: tuple[Plan, FramePool | HeapFrame],
        run: Run,
        inputs: tuple[Any, ...],
        given: Mapping[int, np.ndarray] | None,
    ) -> tuple[Any, ...]:
        plan, pool = found
        function = pool.take()
        try:
            if given and plan.layout is not None:
                return function(run, *inputs, *[given[number] for number in plan.layout.given])
            return function(run, *inputs)
        except Exception as error:
            raise_named(plan, error)
            raise
        finally:
            pool.give_back(function)

    def _run_on_heap(
        self,
        key: Key | None,
        run: Run,
        inputs: tuple[Any, ...],
        outputs: tuple[int, ...],
        given: Mapping[int, np.ndarray] | None,
    ) -> tuple[Any, ...]:
        form = self._forms[run.mode]
        plan, function = self._function(outputs, form)
        types: dict[int, ArrayType] = {}
        watched = key is not None and self._seen.get(key)
        if watched:
            function = _bound(plan, watched_kernels(plan.program, types))
        try:
            results = function(run, *inputs)
        except Exception as error:
            raise_named(plan, error)
            raise
        if key is not None and watched:
            self._prepare(key, outputs, given or {}, form, inputs, types)
        elif key is not None:
            self._seen.put(key, True)
        return results

    def _prepare(
        self,
        key: Key,
        outputs: tuple[int, ...],
        given: Mapping[int, np.ndarray],
        form: Form,
        inputs: tuple[Any, ...],
        types: Mapping[int, ArrayType],
    ) -> None:
        assert self._preparation is not None
        refuted = len(self._preparation.refuted.shapes)
        fitting = [n for n, a in given.items() if types.get(n) == (a.shape, a.dtype)]
        found = self._preparation.frames(outputs, fitting, form, [value.shape for value in inputs], types)
        with self._lock:
            if len(self._preparation.refuted.shapes) != refuted:
                self._prepared.clear()  # made when more was believed
            self._seen.discard(key)
            self._prepared[key] = found or self._heap_frame(outputs, form)
            if len(self._prepared) > _MOST_PREPARED:
                del self._prepared[min(self._prepared, key=lambda k: self._prepared[k][1].last_used)]

    def _heap_frame(self, outputs: tuple[int, ...], form: Form) -> tuple[Plan, HeapFrame]:
        assert self._preparation is not None
        plan, function = self._function(outputs, form)
        return plan, HeapFrame(function, self._preparation.clock)

    def _function(self, outputs: tuple[int, ...], form: Form) -> tuple[Plan, Function]:
        """The plan that allocates every value, and its function; made at the first call."""
        found = self._functions.get((outputs, form))
        if found is None:
            plan = write_plan(self.program.only(outputs), form=form)
            found = plan, _bound(plan)
            self._functions.put((outputs, form), found)
        return found


def _bound(plan: Plan, kernels: Sequence[Callable[..., Any]] | None = None) -> Function:
    return plan.bind(kernels, fresh=fresh, span=node_spans(plan))


def _outputs_over_inputs(program: Program) -> dict[int, int]:
    """Outputs that may be an input's own memory, such as a cache: by number, the position of that input.

    The kernel allows it, and nobody else reads that input.
    """
    reads = Counter(value for call in program.calls for value in call.inputs)
    reads.update(program.outputs)
    positions = {value: position for position, value in enumerate(program.inputs)}
    return {
        call.outputs[out]: positions[value]
        for call in program.calls
        for out, index in call.kernel.in_place
        if index < len(call.inputs)
        and out < len(call.outputs)
        and (value := call.inputs[index]) in positions
        and reads[value] == 1
    }


def _writable(
    given: Mapping[int, np.ndarray], inputs: tuple[Any, ...], over: Mapping[int, int]
) -> dict[int, np.ndarray]:
    """Arrays that kernels may write into while they read the inputs and each other's results."""
    shared = {
        position
        for number, array in given.items()
        if (position := over.get(number)) is not None and same_memory(array, inputs[position])
    }
    alone = apart(list(given.values()), [value for i, value in enumerate(inputs) if i not in shared])
    return {
        number: array
        for (number, array), is_alone in sorted(
            zip(given.items(), alone, strict=True), key=lambda pair: pair[0][0]
        )
        if is_alone and array.flags.c_contiguous and array.flags.writeable
    }
