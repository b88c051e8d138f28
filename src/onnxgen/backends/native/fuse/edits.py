"""Who writes and who reads each buffer of a plan, and plans with some calls replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from onnxgen.backends.native.plan import Buffer, Call, Parameter, StepPlan, View


class Uses:
    """Writers and readers by buffer; each buffer has one writer until memory is shared, which comes last."""

    def __init__(self, plan: StepPlan) -> None:
        self._plan = plan
        self._writers: dict[str, int] = {}
        self._readers: dict[str, list[int]] = {}
        for index, call in enumerate(plan.calls):
            for view in call.writes.values():
                self._writers[view.buffer] = index
            for view in call.reads.values():
                self._readers.setdefault(view.buffer, []).append(index)
        self._results = {view.buffer for view in (plan.logits, plan.hidden_states) if view is not None}

    def writer(self, view: View) -> int:
        """The call that writes the buffer of a view."""
        return self._writers[view.buffer]

    def readers(self, view: View) -> Sequence[int]:
        """Calls that read any columns of the buffer of a view."""
        return self._readers.get(view.buffer, ())

    def is_result(self, view: View) -> bool:
        """Whether the step gives the buffer out."""
        return view.buffer in self._results

    def only_reader(self, view: View) -> int | None:
        """The one call that reads the buffer, if nobody else does."""
        readers = self.readers(view)
        return readers[0] if len(readers) == 1 and not self.is_result(view) else None

    def is_whole(self, view: View) -> bool:
        """Whether a view has all columns of its buffer."""
        return view.offset == 0 and view.width == self._plan.buffers[view.buffer].width


def with_calls(
    plan: StepPlan, calls: Iterable[Call | None], *, buffers: Mapping[str, Buffer] | None = None
) -> StepPlan:
    """The plan with these calls (None: left out), without buffers and weights that nobody uses any more."""
    kept = tuple(call for call in calls if call is not None)
    all_buffers = {**plan.buffers, **(buffers or {})}
    used = {view.buffer for call in kept for view in (*call.reads.values(), *call.writes.values())}
    weights = {name for call in kept for name in call.weights.values()}
    return replace(
        plan,
        calls=kept,
        buffers={name: buffer for name, buffer in all_buffers.items() if name in used},
        weights={name: weight for name, weight in plan.weights.items() if name in weights},
    )


def changed(
    call: Call,
    *others: Call,
    reads: Mapping[str, View] | None = None,
    writes: Mapping[str, View] | None = None,
    weights: Mapping[str, str] | None = None,
    **parameters: Parameter,
) -> Call:
    """The call with some parts replaced, which does the work of ``others`` too."""
    return replace(
        call,
        reads=call.reads if reads is None else reads,
        writes=call.writes if writes is None else writes,
        weights=call.weights if weights is None else weights,
        parameters={**call.parameters, **parameters},
        nodes=(*(n for other in others for n in other.nodes), *call.nodes),
    )
