"""Convolution: ``Conv``, and ONNX Runtime's forms with an activation or channels last."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from onnxgen.graph.cpu.activation_functions import fused_activation
from onnxgen.graph.cpu.convolution import convolve, require_fit
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import WindowSpec, out_shape
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


class _Convolution:
    """A node's convolution: by compiled loops for float32 over up to three axes, else as products of columns.

    Weights that the model holds are packed at the first call.
    """

    def __init__(self, node: NodeSpec) -> None:
        from onnxgen.graph.cpu import sliding_windows, tiled_convolution

        self._node, self._sliding, self._tiled = node, sliding_windows, tiled_convolution
        self._axes = lru_cache(maxsize=64)(WindowSpec.of(node).axes)
        self._group = node.attr("group", 1)
        self._held = 1 in node.constants and (not node.has_input(2) or 2 in node.constants)
        self._packed: Any = None

    def __call__(
        self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """``[batch, out, *out]`` in the type of ``x``; ``out`` has that type."""
        wide = widened(x)
        y = self._wide(wide, w, b, out if wide is x else None)
        if y is out or out is None:
            return y.astype(x.dtype, copy=False)
        out[...] = y
        return out

    def _wide(self, x: np.ndarray, w: np.ndarray, b: np.ndarray | None, out: np.ndarray | None) -> np.ndarray:
        require_fit(x, w, b, self._group)
        axes = self._axes(x.shape[2:], w.shape[2:])
        require_memory(self._node, (x.shape[0], w.shape[0], *out_shape(axes)), x.dtype)
        if x.dtype != np.float32 or not 1 <= len(axes) <= self._tiled.MOST_AXES or w.size == 0:
            y = convolve(x, widened(w), axes, group=self._group, out=out)
            if b is not None:
                y += widened(b).reshape(-1, *(1,) * len(axes))
            return y
        if w.shape[1] == 1 and self._group > 1:
            return self._sliding.slide_weights(x, widened(w), widened(b), axes, out)
        packed = self._packed
        if packed is None:
            packed = self._tiled.PackedWeights.of(widened(w), widened(b), self._group)
            self._packed = packed if self._held else None
        return self._tiled.convolve_tiles(x, packed, axes, out)


@TABLE.operator("Conv", 1, 11, 22)
def conv(node: NodeSpec) -> Kernel:
    """Convolution over any number of spatial axes, in groups."""
    convolution = _Convolution(node)

    def run(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        return convolution(x, w, b)

    def into(x: np.ndarray, w: np.ndarray, *rest: Any) -> None:
        *bias, y = rest
        convolution(x, w, bias[0] if bias else None, y)

    return Kernel(run, into)


@TABLE.operator("FusedConv", 1, domain=MICROSOFT)
def fused_conv(node: NodeSpec) -> Kernel:
    """``activation(Conv(x, w, b) + z)``; without ``activation`` the sum itself."""
    convolution, activation = conv(node).run, fused_activation(node)

    def run(
        x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        y = convolution(x, w, b)
        return activation(y if z is None else y + z)

    return Kernel(run)


@TABLE.operator("NhwcFusedConv", 1, domain=MICROSOFT)
@TABLE.operator("NhwcConv", 1, domain=MICROSOFT)
def nhwc_conv(node: NodeSpec) -> Kernel:
    """Convolution of ``[batch, *size, in]`` into ``[batch, *out, out]``; weights as in ``Conv``."""
    convolution = fused_conv(node).run

    def run(
        x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, z: np.ndarray | None = None
    ) -> np.ndarray:
        first = None if z is None else np.moveaxis(z, -1, 1)
        y = convolution(np.moveaxis(x, -1, 1), w, b, first)
        return np.ascontiguousarray(np.moveaxis(y, 1, -1))

    return Kernel(run)
