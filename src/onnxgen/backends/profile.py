"""What a backend may offer beside steps: where their time goes, by kind of kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class KernelTime:
    """All calls of one kind of kernel.

    Attributes:
        name: The kind, as a reader of kernels knows it.
        calls: How often it was called.
        seconds: Wall time of the calls, waiting for the last thread included.
    """

    name: str
    calls: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Where the time of some steps went.

    Attributes:
        steps: Number of steps.
        seconds: Wall time inside `Backend.execute`; what no kernel took is overhead.
        kernels: Kinds of kernels, the longest first.
    """

    steps: int
    seconds: float
    kernels: tuple[KernelTime, ...]

    @property
    def kernel_seconds(self) -> float:
        """Wall time inside kernels."""
        return sum(kernel.seconds for kernel in self.kernels)


@runtime_checkable
class ProfiledBackend(Protocol):
    """A backend that can say where the time of its steps goes."""

    def profile(self, run: Callable[[], object]) -> StepProfile:
        """Call ``run``, which executes steps of this backend, and say where their time went.

        Timing each kernel may slow the steps down a little; without a profile they are not timed.
        """
        ...
