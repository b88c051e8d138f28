"""What a session runs: feeds by name in, outputs by name out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from onnxgen.errors import FeedError
from onnxgen.foundations.tracing import OFF, Tracer
from onnxgen.graph.optimizer.report import PassReport
from onnxgen.graph.placement import Placement
from onnxgen.graph.planner.program import NamedValue
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.running import PLAIN, Run


class Executable:
    """A compiled model. Runs of several threads do not disturb each other.

    Attributes:
        inputs: What must be fed, in the model's order.
        overridable: Initializers that may be fed.
        outputs: What can be asked for, in the model's order.
        placement: Which provider runs each node, and why.
        passes: What the optimizer did.
    """

    def __init__(
        self,
        routine: Routine,
        *,
        inputs: Sequence[NamedValue],
        outputs: Sequence[NamedValue],
        defaults: Mapping[str, np.ndarray],
        placement: Placement,
        passes: tuple[PassReport, ...],
    ) -> None:
        self._routine = routine
        self._defaults = defaults
        self._input_names = tuple(value.name for value in inputs)
        self._all = tuple(value.name for value in outputs)
        self._number_by_name = {
            value.name: n for value, n in zip(outputs, routine.program.outputs, strict=True)
        }
        self.inputs = tuple(value for value in inputs if value.name not in defaults)
        self.overridable = tuple(value for value in inputs if value.name in defaults)
        self.outputs = tuple(outputs)
        self.placement = placement
        self.passes = passes

    @property
    def source(self) -> str:
        """The plan for all outputs, as Python source."""
        return self._routine.plan().source

    def run(
        self,
        feeds: Mapping[str, Any],
        output_names: Sequence[str] | None = None,
        *,
        outputs: Mapping[str, np.ndarray] | None = None,
        should_stop: Callable[[], bool] | None = None,
        trace: Tracer = OFF,
    ) -> list[Any]:
        """Compute outputs.

        Args:
            feeds: Values of the inputs; initializers that are inputs, too, may be left out.
            output_names: What is wanted, in that order; all outputs where None.
            outputs: Arrays that outputs are written into; they are returned in place of new ones.
            should_stop: Asked between nodes; the run ends when it says True.
            trace: Where spans go.

        Raises:
            FeedError: for unknown or missing names, and for arrays in ``outputs`` of another shape or type.
            KernelError: when a node fails.
            RunCancelledError: when ``should_stop`` said so.
        """
        values = self._values(feeds)
        wanted = self._routine.program.outputs if output_names is None else self._wanted(output_names)
        run = PLAIN if should_stop is None and not trace.enabled else Run(should_stop, trace)
        names = self._all if output_names is None else output_names
        given = (
            {self._number_by_name[name]: outputs[name] for name in names if name in outputs}
            if outputs
            else None
        )
        with np.errstate(all="ignore"):
            results = list(self._routine.compute(run, values, wanted, given))
        if outputs:
            for index, name in enumerate(names):
                if name in outputs and results[index] is not outputs[name]:
                    results[index] = _written(name, results[index], outputs[name])
        return results

    def _values(self, feeds: Mapping[str, Any]) -> tuple[Any, ...]:
        try:
            values = tuple([feeds[name] for name in self._input_names])
        except KeyError:
            known = {**self._defaults, **feeds}
            missing = [name for name in self._input_names if name not in known]
            if missing:
                raise FeedError(f"inputs {missing} are missing; found {sorted(feeds)}") from None
            values = tuple([known[name] for name in self._input_names])
            unknown = set(known).difference(self._input_names)
        else:
            unknown = len(feeds) > len(values)
        if unknown:
            unknown = sorted(set(feeds) - set(self._input_names))
            raise FeedError(f"the model has no inputs {unknown}; it has {list(self._input_names)}")
        return values

    def _wanted(self, names: Sequence[str]) -> tuple[int, ...]:
        try:
            return tuple([self._number_by_name[name] for name in names])
        except KeyError as error:
            known = list(self._number_by_name)
            raise FeedError(f"the model has no output {error.args[0]!r}; it has {known}") from None


def _written(name: str, value: Any, target: np.ndarray) -> np.ndarray:
    if not isinstance(value, np.ndarray) or value.shape != target.shape or value.dtype != target.dtype:
        found = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__
        raise FeedError(
            f"output {name!r} is {found}, the array given for it is {target.dtype}{list(target.shape)}; "
            "give one of that type and shape, or none"
        )
    np.copyto(target, value)
    return target
