"""Kernels whose output is their input in another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.indexing import copy_into
from onnxgen.graph.ep.kernel import Kernel


def view_kernel(view: Callable[..., np.ndarray]) -> Kernel:
    """The kernel of an operator whose output is a view of its first input, where strides allow one.

    Args:
        view: Makes it from the inputs; NumPy may have copied.
    """

    def into(*arrays: Any) -> None:
        copy_into(arrays[-1], view(*arrays[:-1]))

    return Kernel(view, into, may_alias=((0, 0),))
