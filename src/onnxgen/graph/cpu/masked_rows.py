"""Rows of logits without the tokens that a bit mask rules out, compiled."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls

Mask = npt.NDArray[np.uint32]
"""Which tokens may be chosen, uint32 ``[words]``: bit ``t % 32`` of word ``t // 32`` is token ``t``'s."""


def mask_words(width: int) -> int:
    """Words of a mask for so many tokens."""
    return -(-width // 32)


def mask_address(mask: Mask, width: int) -> int:
    """Where a mask lies that kernels are given."""
    assert mask.dtype == np.uint32 and mask.flags.c_contiguous and mask.size >= mask_words(width)
    return mask.__array_interface__["data"][0]


def apply_mask(row: npt.NDArray[np.float32], mask: Mask) -> None:
    """Write minus infinity over the logits of the tokens that a mask rules out.

    Args:
        row: float32 ``[vocab]``, contiguous; changed in place.
        mask: For as many tokens at least.
    """
    assert row.dtype == np.float32 and row.flags.c_contiguous and row.flags.writeable
    address = row.__array_interface__["data"][0]
    _mask_row().run([(address, len(row), mask_address(mask, len(row)), address)], [1], seconds=0)


def mask_row_kernel() -> StepKernel:
    """The kernel behind this module."""
    return step_kernel("masked_rows:mask_row", ("x", "width", "mask", "out"))


@cache
def _mask_row() -> NodeCalls:
    return NodeCalls(mask_row_kernel())
