"""Runs cases and collects verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from onnxgen.conformance.cases import Case
from onnxgen.conformance.compare import MismatchError, check_value
from onnxgen.conformance.exclusions import why_not_compared


class Subject(Protocol):
    """A model loaded by the runtime under test."""

    @property
    def claimed_by_cpu(self) -> bool | None:
        """Whether the ``cpu`` provider alone runs it; None where the runtime has no such provider."""
        ...

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        """All outputs, in the model's order."""
        ...


Load = Callable[[Case], Subject]


@dataclass(slots=True)
class GroupResult:
    """Verdicts of one group.

    Attributes:
        group: The group's name.
        passed: Tests whose outputs were right.
        failed: What went wrong, by test.
        excluded: Why values were not compared, by test; those tests ran with the right shapes and types.
        claimed_by_cpu: Tests that the ``cpu`` provider runs alone; None where that means nothing.
    """

    group: str
    passed: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    excluded: dict[str, str] = field(default_factory=dict[str, str])
    claimed_by_cpu: int | None = None

    @property
    def total(self) -> int:
        """All tests of the group."""
        return len(self.passed) + len(self.failed) + len(self.excluded)

    def as_json(self) -> dict[str, Any]:
        """Counts and names, for ``--json``."""
        counts: dict[str, Any] = {
            "total": self.total,
            "passed": len(self.passed),
            "failed": sorted(self.failed),
            "excluded": self.excluded,
        }
        return counts if self.claimed_by_cpu is None else counts | {"claimed_by_cpu": self.claimed_by_cpu}


def run_group(group: str, cases: Iterable[Case], load: Load, *, repeats: int = 1) -> GroupResult:
    """Run every case ``repeats`` times on one loaded model and judge each run."""
    result = GroupResult(group)
    for case in cases:
        reason = why_not_compared(case.name, case.model)
        try:
            subject = load(case)
            if subject.claimed_by_cpu is not None:
                result.claimed_by_cpu = (result.claimed_by_cpu or 0) + subject.claimed_by_cpu
            for _ in range(repeats):
                _run_case(case, subject, values=reason is None)
        except MismatchError as mismatch:
            result.failed[case.name] = str(mismatch)
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises is that test's failure, not ours
            result.failed[case.name] = f"{type(error).__name__}: {error}"
        else:
            if reason is None:
                result.passed.append(case.name)
            else:
                result.excluded[case.name] = reason
    return result


def _run_case(case: Case, subject: Subject, *, values: bool) -> None:
    names = [value.name for value in case.model.graph.output]
    for inputs, expected in case.data_sets:
        found = subject.run(dict(zip(case.input_names, inputs, strict=False)))
        if len(found) != len(expected):
            raise MismatchError(f"{len(found)} outputs, expected {len(expected)}")
        for name, one, other in zip(names, found, expected, strict=True):
            check_value(one, other, rtol=case.rtol, atol=case.atol, where=name, values=values)
