"""A node made ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kernel:
    """What executes one node, as often as it is called and from several threads at once.

    Values are NumPy arrays (ml_dtypes for element types that NumPy lacks, ``object`` arrays of ``str`` for strings;
    always arrays, also for rank 0, never NumPy scalars), lists for sequences, None for an empty optional and
    dictionaries for maps. A provider of another device has values of its own.

    Whoever calls kernels has turned NumPy's floating-point warnings off (``np.errstate(all="ignore")``), once for
    many of them: infinities and NaN are results as the standard has them, not news.

    Attributes:
        run: ``run(*inputs)`` returns the output, or a tuple of as many values as the node has outputs when it has
            more than one (None where nobody asked for it). Optional inputs that are left out are None; left out at
            the end, they are absent. Inputs must not be changed. Outputs are new memory, except as ``may_alias`` says.
        into: ``into(*inputs, *outputs)`` writes the same result into the outputs, which have the right shapes and
            element types and are C-contiguous; None where the kernel cannot. Only for nodes whose outputs are all tensors and wanted.
        may_alias: Pairs (output, input): what ``run`` returns as that output may be the input itself or a view of it.
        in_place: Pairs (output, input): ``into`` may be given that input's own memory as that output, when
            shape and element type are equal.
        absorbed: Inputs that are constants whose elements it never reads again: they may come as arrays of their shape and
            type that hold something else.
        checks_outputs: Whether ``into`` raises `KernelError` for outputs of other shapes than it computes. Then outputs whose
            shapes depend on values are written into memory that a caller has bound, if they fitted it before.
    """

    run: Callable[..., Any]
    into: Callable[..., None] | None = None
    may_alias: tuple[tuple[int, int], ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    absorbed: tuple[int, ...] = ()
    checks_outputs: bool = False
