"""A kernel as those see it who call it: where its code comes from, and what its arguments are called."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

COMPILED_PACKAGE = "onnxgen.graph.cpu.compiled"
"""Where the modules of kernels are."""


@dataclass(frozen=True, slots=True)
class StepKernel:
    """A step kernel; equal ones share their code.

    Attributes:
        factory: ``module:function`` below `onnxgen.graph.cpu.compiled`; called with the parameters it returns the kernel as a
            Python function (`onnxgen.graph.cpu.compiled.kernel`). Imported only when the code must be compiled.
        parameters: What is fixed at compile time, by name; values with a stable ``repr``.
        arguments: Names of the row's words from 1 on; addresses, counts, and float32 values as their bits.
        gives_value: Whether it returns an int64, as functions do that are called from Python and not by steps.
    """

    factory: str
    parameters: tuple[tuple[str, Hashable], ...]
    arguments: tuple[str, ...]
    gives_value: bool = False

    @property
    def name(self) -> str:
        """The factory's name with the parameters that are set: what reports show."""
        chosen = [
            key if value is True else f"{key}={value}"
            for key, value in self.parameters
            if value not in (False, None)
        ]
        return self.factory.rpartition(":")[2] + (f"[{', '.join(chosen)}]" if chosen else "")


def step_kernel(factory: str, arguments: Sequence[str], **parameters: Hashable) -> StepKernel:
    """A kernel by its factory, as ``step_kernel("row_norms:norm", ("x", "y", "width"), eps=True)``."""
    return StepKernel(factory, tuple(sorted(parameters.items())), tuple(arguments))
