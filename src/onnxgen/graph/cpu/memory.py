"""Whether a result fits into memory, asked before it is made.

A system grants more memory than it has and ends a process that uses it; so sizes that are in the values of inputs or in
attributes, which may say anything, are compared with what is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.foundations.cpuinfo import detect_memory
from onnxgen.foundations.disk import format_bytes
from onnxgen.graph.ep.node import NodeSpec

_ASKED_FROM_BYTES = 1 << 28
"""Less is granted unasked: the system takes longer to answer than to give it."""


def require_memory(node: NodeSpec, shape: Iterable[int], dtype: np.dtype) -> None:
    """Refuse to make an array that does not fit.

    Args:
        node: For messages.
        shape: Of the array, with no negative dimension.
        dtype: Its element type.

    Raises:
        KernelError: with a `MemoryError` as its cause, when the array is larger than what is left.
    """
    shape = tuple(shape)
    num_bytes = prod(shape) * dtype.itemsize
    if num_bytes < _ASKED_FROM_BYTES:
        return
    left = detect_memory().available_bytes
    if left is None or num_bytes <= left:
        return
    message = f"{node}: an array of shape {shape} of {dtype} needs {format_bytes(num_bytes)}, {format_bytes(left)} are left"
    raise KernelError(message) from MemoryError(message)
