"""``Resize`` and the older ``Upsample``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_axes, integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.resampling import NEAREST, POSITIONS, Stretch, cubic, picked, taps, triangle
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_MODES = ("nearest", "linear", "cubic")


@dataclass(frozen=True, slots=True)
class Resampling:
    """How values are computed, whatever the sizes."""

    mode: str = "nearest"
    positions: str = "asymmetric"
    nearest: str = "simple"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    extrapolation: float = 0.0
    antialias: bool = False

    @classmethod
    def of(cls, node: NodeSpec) -> Resampling:
        """Read a node's attributes, with the defaults of ``Resize`` 11 and later.

        Raises:
            InvalidGraphError: for a mode that the operator does not have.
        """
        found = cls(
            mode=node.attr("mode", "nearest"),
            positions=node.attr("coordinate_transformation_mode", "half_pixel"),
            nearest=node.attr("nearest_mode", "round_prefer_floor"),
            cubic_a=node.attr("cubic_coeff_a", -0.75),
            exclude_outside=bool(node.attr("exclude_outside", 0)),
            extrapolation=node.attr("extrapolation_value", 0.0),
            antialias=bool(node.attr("antialias", 0)),
        )
        for name, value, known in (
            ("mode", found.mode, _MODES),
            ("coordinate_transformation_mode", found.positions, POSITIONS),
            ("nearest_mode", found.nearest, NEAREST),
        ):
            if value not in known:
                raise InvalidGraphError(f"{node} has {name} {value!r}; known are {', '.join(known)}")
        return found

    def __call__(self, x: np.ndarray, stretches: Sequence[Stretch]) -> np.ndarray:
        """Resample along every axis of ``x``; there is one stretch for each."""
        if 0 in x.shape or any(s.out == 0 for s in stretches):
            return np.zeros(tuple(s.out for s in stretches), x.dtype)
        if self.mode == "nearest":
            y = _moved(x, [_nearest(s, self.positions, self.nearest) for s in stretches])
        else:
            y = self._smooth(x, [_places(s, self.positions) for s in stretches], stretches)
        if self.positions == "tf_crop_and_resize":
            for axis, (stretch, size) in enumerate(zip(stretches, x.shape, strict=True)):
                place = _places(stretch, self.positions)
                y[(slice(None),) * axis + ((place < 0) | (place > size - 1),)] = self.extrapolation
        return y

    def _smooth(
        self, x: np.ndarray, positions: Sequence[np.ndarray], stretches: Sequence[Stretch]
    ) -> np.ndarray:
        kernel, radius = (triangle, 1) if self.mode == "linear" else (partial(cubic, a=self.cubic_a), 2)
        whole = x.dtype.kind in "iu"
        y = x.astype(np.float64 if x.dtype.itemsize > 2 else np.float32) if whole else widened(x)
        for axis, (place, stretch) in enumerate(zip(positions, stretches, strict=True)):
            if np.array_equal(place, np.arange(stretch.size)):
                continue
            shrink = min(1.0, stretch.scale) if self.antialias else 1.0
            y = taps(
                place,
                stretch.size,
                kernel,
                radius=radius,
                shrink=shrink,
                exclude_outside=self.exclude_outside,
            ).apply(y, axis)
        if whole:
            info = np.iinfo(x.dtype)
            y = np.clip(np.rint(y) if self.antialias else np.trunc(y), info.min, info.max)
        return y.copy() if y is x else y.astype(x.dtype, copy=False)


def _places(stretch: Stretch, positions: str) -> np.ndarray:
    return POSITIONS[positions](stretch, np.arange(stretch.out, dtype=np.float32))


@lru_cache(maxsize=256)
def _nearest(stretch: Stretch, positions: str, mode: str) -> np.ndarray | None:
    """Which input each output along an axis is nearest to, int64; None where each is its own."""
    place = _places(stretch, positions)
    nearest = NEAREST[mode](place) if mode in NEAREST else _simple(place, stretch)
    index = np.clip(nearest, 0, stretch.size - 1).astype(np.int64)
    return None if np.array_equal(index, np.arange(stretch.size)) else index


def _moved(x: np.ndarray, indices: Sequence[np.ndarray | None]) -> np.ndarray:
    """``x`` at these indices of each axis, where they are not all of its own."""
    if all(index is None for index in indices):
        return x.copy()
    y = x
    for axis, index in enumerate(indices[:-2]):
        y = y if index is None else y.take(index, axis)
    if x.ndim == 1:
        return picked(y[None], np.zeros(1, np.int64), _or_all(indices[0], y.shape[0]))[0]
    if indices[-2] is None and indices[-1] is None:
        return y
    return picked(y, *(_or_all(index, size) for index, size in zip(indices[-2:], y.shape[-2:], strict=True)))


def _or_all(index: np.ndarray | None, size: int) -> np.ndarray:
    return np.arange(size) if index is None else index


def _simple(place: np.ndarray, stretch: Stretch) -> np.ndarray:
    """The nearest pixel before opset 11, where the standard is silent, as ONNX Runtime has it: up when shrinking."""
    return np.ceil(place) if stretch.scale < 1 else np.floor(place)


@TABLE.operator("Resize", 11, 13, 18, 19)
def resize(node: NodeSpec) -> Kernel:
    """Resample to ``sizes`` or by ``scales``, along ``axes`` or all."""
    resampling, axes = Resampling.of(node), node.attr("axes")
    policy = node.attr("keep_aspect_ratio_policy", "stretch")

    def run(
        x: np.ndarray,
        roi: np.ndarray | None = None,
        scales: np.ndarray | None = None,
        sizes: np.ndarray | None = None,
    ) -> np.ndarray:
        chosen = range(x.ndim) if axes is None else checked_axes(node, axes, x.ndim)
        shape = [x.shape[axis] for axis in chosen]
        if scales is not None and scales.size:
            stretches = _by_scales(node, shape, scales.tolist())
        elif sizes is not None:
            stretches = _by_sizes(node, shape, integers(sizes), policy)
        else:
            raise KernelError(f"{node}: has neither scales nor sizes")
        if resampling.positions == "tf_crop_and_resize" and roi is not None and roi.size:
            starts, ends = roi.astype(float).reshape(2, -1).tolist()
            stretches = [
                Stretch(s.size, s.out, s.scale, start, end)
                for s, start, end in zip(stretches, starts, ends, strict=True)
            ]
        by_axis = dict(zip(chosen, stretches, strict=True))
        every = [by_axis.get(axis, Stretch(size, size, 1.0)) for axis, size in enumerate(x.shape)]
        require_memory(node, (stretch.out for stretch in every), x.dtype)
        return resampling(x, every)

    return Kernel(run)


def _by_scales(node: NodeSpec, shape: Sequence[int], scales: Sequence[float]) -> list[Stretch]:
    if len(scales) != len(shape) or not all(0 < scale < math.inf for scale in scales):
        raise KernelError(f"{node}: scales {list(scales)} need a positive number for each of {list(shape)}")
    # The product is float32 by the standard's shape inference: 10 * 0.7 is 7, not 6.999.
    return [
        Stretch(size, int(np.floor(np.float32(size) * np.float32(scale))), scale)
        for size, scale in zip(shape, scales, strict=True)
    ]


def _by_sizes(node: NodeSpec, shape: Sequence[int], sizes: Sequence[int], policy: str) -> list[Stretch]:
    if len(sizes) != len(shape) or min(sizes, default=0) < 0:
        raise KernelError(
            f"{node}: sizes {list(sizes)} need a number that is not negative for each of {list(shape)}"
        )
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise InvalidGraphError(
            f"{node} has keep_aspect_ratio_policy {policy!r}; known are stretch, not_larger, not_smaller"
        )
    ratios = [out / size if size else 1.0 for out, size in zip(sizes, shape, strict=True)]
    if policy == "stretch":
        return [Stretch(size, out, ratio) for size, out, ratio in zip(shape, sizes, ratios, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [Stretch(size, int(np.floor(size * scale + 0.5)), scale) for size in shape]


@TABLE.operator("Upsample", 9, 10)
@TABLE.operator("Resize", 10)
def resize_10(node: NodeSpec) -> Kernel:
    """Resample by ``scales``; the corner of the first pixel is position 0."""
    mode = _old_mode(node)

    def run(x: np.ndarray, scales: np.ndarray) -> np.ndarray:
        return _old_resize(node, x, scales.tolist(), mode)

    return Kernel(run)


@TABLE.operator("Upsample", 7)
def upsample_7(node: NodeSpec) -> Kernel:
    """Resample by the attribute ``scales``."""
    mode, scales = _old_mode(node), node.attr("scales")

    def run(x: np.ndarray) -> np.ndarray:
        return _old_resize(node, x, scales, mode)

    return Kernel(run)


@TABLE.operator("Upsample", 1)
def upsample_1(node: NodeSpec) -> Kernel:
    """Resample the last two axes by ``height_scale`` and ``width_scale``."""
    mode, scales = _old_mode(node), (1.0, 1.0, node.attr("height_scale"), node.attr("width_scale"))

    def run(x: np.ndarray) -> np.ndarray:
        return _old_resize(node, x, scales, mode)

    return Kernel(run)


def _old_mode(node: NodeSpec) -> str:
    mode = {"bilinear": "linear"}.get(node.attr("mode", "nearest"), node.attr("mode", "nearest"))
    if mode not in ("nearest", "linear"):
        raise InvalidGraphError(f"{node} has mode {mode!r}; known are nearest, linear, bilinear")
    return mode


def _old_resize(node: NodeSpec, x: np.ndarray, scales: Sequence[float], mode: str) -> np.ndarray:
    stretches = _by_scales(node, x.shape, scales)
    require_memory(node, (stretch.out for stretch in stretches), x.dtype)
    return Resampling(mode=mode)(x, stretches)
