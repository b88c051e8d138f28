"""Data movement of ``com.microsoft`` that the standard has not, or has in another form."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, checked_indices, scalar
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.views import view_kernel
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("ExpandDims", 1, domain=MICROSOFT)
def expand_dims(node: NodeSpec) -> Kernel:
    """One axis of size 1 more, where the second input says."""

    def run(x: np.ndarray, axis: np.ndarray) -> np.ndarray:
        return np.expand_dims(x, checked_axis(node, int(scalar(node, axis, "axis")), x.ndim + 1))

    return view_kernel(run)


@TABLE.operator("SampleOp", 1, domain=MICROSOFT)
def sample_op(node: NodeSpec) -> Kernel:
    """The input itself."""

    def run(x: np.ndarray) -> np.ndarray:
        return x

    return view_kernel(run)


@TABLE.operator("UnfoldTensor", 1, domain=MICROSOFT)
def unfold_tensor(node: NodeSpec) -> Kernel:
    """Every window of ``size`` elements of an axis, ``step`` apart, on a new last axis."""
    axis, size, step = node.attr("dim", -1), node.attr("size"), node.attr("step", 1)

    def run(x: np.ndarray) -> np.ndarray:
        at = checked_axis(node, axis, x.ndim)
        if not 1 <= size <= x.shape[at] or step < 1:
            raise KernelError(f"{node}: windows of {size}, {step} apart, do not fit {x.shape[at]} elements")
        windows = np.lib.stride_tricks.sliding_window_view(x, size, axis=at)
        return windows[(slice(None),) * at + (slice(None, None, step),)]

    return view_kernel(run)


@TABLE.operator("Unique", 1, domain=MICROSOFT)
def unique_in_order(node: NodeSpec) -> Kernel:
    """Different elements in the order of their first occurrence, where each is among them, and how often."""

    def run(x: np.ndarray) -> Any:
        if x.ndim != 1:
            raise KernelError(f"{node}: needs a vector, its input is of shape {x.shape}")
        _, first, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        order = np.argsort(first, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        found = (x[first[order]], place[inverse.reshape(-1)], counts[order].astype(np.int64))
        return found[: len(node.outputs)] if len(node.outputs) > 1 else found[0]

    return Kernel(run)


@TABLE.operator("TorchEmbedding", 1, domain=MICROSOFT)
def torch_embedding(node: NodeSpec) -> Kernel:
    """Rows of a table; what says how to train it changes nothing."""

    def run(table: np.ndarray, indices: np.ndarray, *_: np.ndarray) -> np.ndarray:
        return table[checked_indices(node, indices, len(table))]

    return Kernel(run)
