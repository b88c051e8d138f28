"""Old versions that differ from onnx.reference's in an attribute or two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_cast import Cast_1
from onnx.reference.ops.op_grid_sample import GridSample as _GridSample
from onnx.reference.ops.op_roi_align import RoiAlign as _RoiAlign

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@OWN.operator("Clip", 1, 6)
class Clip(OpRun):
    """The limits are attributes."""

    def _run(
        self, x: np.ndarray, *, min: float | None = None, max: float | None = None, **_consumed_inputs: Any
    ) -> Any:
        return (np.clip(x, min, max).astype(x.dtype),)


@OWN.operator("Cast", 1)
class Cast(Cast_1):
    """The type is written by name."""

    def _run(self, x: np.ndarray, *, to: str) -> Any:  # type: ignore[override]
        return super()._run(x, to=onnx.TensorProto.DataType.Value(to.upper()))  # pyright: ignore[reportPrivateUsage]


@OWN.operator("Gemm", 1, 6)
class Gemm(OpRun):
    """The third matrix is added as it is, or laid over the result where ``broadcast`` says so."""

    def _run(
        self,
        a: np.ndarray,
        b: np.ndarray,
        c: np.ndarray,
        *,
        alpha: float,
        beta: float,
        transA: int,  # noqa: N803
        transB: int,  # noqa: N803
        broadcast: int,
    ) -> Any:
        product = (a.T if transA else a).astype(np.float64) @ (b.T if transB else b)
        return ((alpha * product + beta * c).astype(a.dtype),)


@OWN.operator("Dropout", 1, 6)
class DropoutWithTest(OpRun):
    """Random only where ``is_test`` is 0, which needs a generator that nobody seeds."""

    def _run(self, x: np.ndarray, *, ratio: float, is_test: int, **_consumed_inputs: Any) -> Any:
        if is_test or ratio == 0:
            return x, np.ones(x.shape, x.dtype)
        kept = np.random.default_rng().random(x.shape) >= ratio
        return (x * kept / (1 - ratio)).astype(x.dtype), kept.astype(x.dtype)


@OWN.operator("Dropout", 7)
class DropoutWithMaskOfData(OpRun):
    """The data; the mask has their type, and says nothing where nothing is dropped."""

    def _run(self, x: np.ndarray, *, ratio: float) -> Any:
        return x, np.zeros(x.shape, x.dtype)


@OWN.operator("Dropout", 10)
class DropoutWithMask(OpRun):
    """The data; the mask says nothing where nothing is dropped."""

    def _run(self, x: np.ndarray, *, ratio: float) -> Any:
        return x, np.zeros(x.shape, np.bool_)


@OWN.operator("DequantizeLinear", 10, 13)
class DequantizeLinear(OpRun):
    """Scale and zero point are of the whole tensor or of an axis."""

    def _run(self, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None, *, axis: int = 1) -> Any:
        shape = [-1 if d == axis % max(x.ndim, 1) else 1 for d in range(x.ndim)] if scale.size > 1 else []
        offset = 0 if zero is None else zero.astype(np.int64).reshape(shape)
        return (((x.astype(np.int64) - offset) * scale.reshape(shape)).astype(scale.dtype),)


@OWN.operator("GridSample", 16)
class GridSample(_GridSample):
    """Modes have the names of images."""

    def _run(self, x: np.ndarray, grid: np.ndarray, *, mode: str, **more: Any) -> Any:  # type: ignore[override]
        mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        return super()._run(x, grid, mode=mode, **more)  # pyright: ignore[reportPrivateUsage]


@OWN.operator("RoiAlign", 10)
class RoiAlign(_RoiAlign):
    """Coordinates are of outputs, without the half pixel."""

    def _run(self, x: np.ndarray, rois: np.ndarray, indices: np.ndarray, **more: Any) -> Any:  # type: ignore[override]
        return super()._run(  # pyright: ignore[reportPrivateUsage]
            x, rois, indices, coordinate_transformation_mode="output_half_pixel", **more
        )


@OWN.operator("Upsample", 1)
class UpsampleBySides(OpRun):
    """Height and width have a scale each."""

    def _run(self, x: np.ndarray, *, height_scale: float, width_scale: float, mode: str) -> Any:
        return (enlarge(x, (1.0, 1.0, height_scale, width_scale), mode),)


@OWN.operator("Upsample", 7)
class UpsampleByAttribute(OpRun):
    """The scales are an attribute."""

    def _run(self, x: np.ndarray, *, scales: Sequence[float], mode: str) -> Any:
        return (enlarge(x, scales, mode),)


@OWN.operator("Upsample", 9)
@OWN.operator("Resize", 10)
class ResizeByInput(OpRun):
    """The scales are an input; ones below 1 round up for ``nearest``, as the standard's tests of then have it."""

    def _run(self, x: np.ndarray, scales: np.ndarray, *, mode: str) -> Any:
        return (enlarge(x, scales.tolist(), mode),)


def enlarge(x: np.ndarray, scales: Sequence[float], mode: str) -> np.ndarray:
    """Resize before opset 11: an output's place is its index divided by the scale."""
    result = x if mode == "nearest" else x.astype(np.float64)
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        size = x.shape[axis]
        places = np.arange(int(np.float32(size) * np.float32(scale))) / np.float32(scale)
        if mode == "nearest":
            nearest = np.ceil(places) if scale < 1 else np.floor(places)
            result = result.take(np.clip(nearest.astype(np.int64), 0, size - 1), axis)
            continue
        low = np.clip(np.floor(places).astype(np.int64), 0, size - 1)
        high = np.minimum(low + 1, size - 1)
        weight = np.minimum(places, size - 1) - low
        weight = weight.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
        result = result.take(low, axis) * (1 - weight) + result.take(high, axis) * weight
    return np.asarray(result).astype(x.dtype)
