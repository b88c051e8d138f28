"""The state of one run, as control flow and checks between calls see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onnxgen.errors import RunCancelledError
from onnxgen.foundations.tracing import OFF, Tracer


@dataclass(frozen=True, slots=True)
class Run:
    """What a run carries into every graph it executes.

    Attributes:
        should_stop: Asked between calls and in loops; None when nobody can stop the run.
        tracer: Where spans go.
        mode: Which form of plan it needs: 1 when somebody may stop it, plus 2 when it is traced.
    """

    should_stop: Callable[[], bool] | None = None
    tracer: Tracer = OFF
    mode: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", (self.should_stop is not None) + 2 * self.tracer.enabled)

    def check(self) -> None:
        """Raise when the run was told to stop.

        Raises:
            RunCancelledError: then.
        """
        if self.should_stop is not None and self.should_stop():
            raise RunCancelledError("the run was told to stop and has no outputs; run again to get them")


PLAIN = Run()
"""A run that nobody stops or traces."""
