"""Old forms of operators that move data, and Pad with negative widths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@OWN.operator("Reshape", 1)
class Reshape(OpRun):
    """The new shape is an attribute; 0 copies a dimension."""

    def _run(self, x: np.ndarray, *, shape: Sequence[int], **_consumed_inputs: Any) -> Any:
        return (x.reshape([x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(shape)]),)


@OWN.operator("Concat", 1)
class Concat(OpRun):
    """The axis is 1 where it is not said."""

    def _run(self, *parts: np.ndarray, axis: int | None = None) -> Any:
        return (np.concatenate(parts, axis=1 if axis is None else axis),)


@OWN.operator("Split", 1)
class Split(OpRun):
    """Sizes are an attribute or an input; equal ones by default."""

    def _run(
        self,
        x: np.ndarray,
        sizes: np.ndarray | None = None,
        *,
        axis: int | None = None,
        split: Sequence[int] | None = None,
    ) -> Any:
        given = split if sizes is None else sizes.astype(np.int64).tolist()
        places = np.cumsum(given)[:-1].tolist() if given else len(self.onnx_node.output)
        return tuple(np.split(x, places, axis=axis or 0))


@OWN.operator("Scatter", 9, 11)
class Scatter(OpRun):
    """Writes updates at indices along an axis."""

    def _run(self, x: np.ndarray, indices: np.ndarray, updates: np.ndarray, *, axis: int) -> Any:
        result = x.copy()
        np.put_along_axis(result, indices, updates, axis) if _covers(x, indices, axis) else _scatter(
            result, indices, updates, axis
        )
        return (result,)


def _covers(x: np.ndarray, indices: np.ndarray, axis: int) -> bool:
    return all(
        a == b for d, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)) if d != axis % x.ndim
    )


def _scatter(result: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int) -> None:
    for place in np.ndindex(indices.shape):
        target = list(place)
        target[axis] = indices[place]
        result[tuple(target)] = updates[place]


class _Pad(OpRun):
    def pad(self, x: np.ndarray, widths: Sequence[int], mode: str, value: Any) -> Any:
        """Pad by 2 widths for each axis, first all before and then all behind; negative ones cut off."""
        pairs = list(zip(widths[: x.ndim], widths[x.ndim :], strict=True))
        grown = [(max(before, 0), max(behind, 0)) for before, behind in pairs]
        options: dict[str, Any] = {"constant_values": value} if mode == "constant" else {}
        pad: Any = np.pad  # its stub wants the mode spelled out
        padded = pad(x, grown, mode, **options)
        kept = tuple(
            slice(max(-before, 0), size - max(-behind, 0))
            for size, (before, behind) in zip(padded.shape, pairs, strict=True)
        )
        return (padded[kept],)

    def _run(self, *inputs: Any, **attributes: Any) -> Any:
        raise NotImplementedError


@OWN.operator("Pad", 1)
class PadWithPaddings(_Pad):
    """The widths are an attribute of another name."""

    def _run(self, x: np.ndarray, *, paddings: Sequence[int], mode: str, value: float) -> Any:
        return self.pad(x, paddings, mode, value)


@OWN.operator("Pad", 2)
class PadWithAttributes(_Pad):
    """The widths are an attribute."""

    def _run(self, x: np.ndarray, *, pads: Sequence[int], mode: str, value: float) -> Any:
        return self.pad(x, pads, mode, value)


@OWN.operator("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
class PadWithInputs(_Pad):
    """The widths are an input, of some axes only where those are given."""

    def _run(
        self,
        x: np.ndarray,
        pads: np.ndarray,
        value: np.ndarray | None = None,
        axes: np.ndarray | None = None,
        *,
        mode: str,
    ) -> Any:
        widths = np.zeros((2, x.ndim), np.int64)
        widths[:, np.arange(x.ndim) if axes is None else axes] = pads.reshape(2, -1)
        fill = x.dtype.type(0) if value is None else value.reshape(-1)[0]
        return self.pad(x, widths.reshape(-1).tolist(), mode, fill)
