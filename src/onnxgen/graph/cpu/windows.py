"""Windows that slide over spatial axes: output sizes, padding, and which elements meet at which offset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.ep.node import NodeSpec

_AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of an operator with windows.

    Attributes:
        size: Length of the input.
        kernel: Elements of a window.
        stride: Input elements between the starts of neighbouring windows.
        dilation: Input elements between neighbouring elements of a window.
        pad_begin: Elements before the input; negative when the first window starts inside it.
        pad_end: Elements after the input.
        out: Number of windows.
    """

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad_begin: int = 0
    pad_end: int = 0
    out: int = 0

    @property
    def extent(self) -> int:
        """Input elements from the first to the last element of a window."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def is_pointwise(self) -> bool:
        """Whether output ``i`` sees exactly input ``i``."""
        return (self.kernel, self.stride, self.pad_begin, self.out) == (1, 1, 0, self.size)

    @property
    def offsets(self) -> range:
        """Elements of a window that lie inside the input for some of the windows."""
        after_last = self.pad_begin - (self.out - 1) * self.stride
        first = max(0, -(-after_last // self.dilation))
        return range(
            first, max(first, min(self.kernel, (self.size - 1 + self.pad_begin) // self.dilation + 1))
        )

    def meet(self, offset: int) -> tuple[slice, slice]:
        """The windows whose element at ``offset`` lies inside the input, and these input elements."""
        shift = offset * self.dilation - self.pad_begin
        first = max(0, -(shift // self.stride))
        last = max(first, min(self.out, (self.size - 1 - shift) // self.stride + 1))
        start = first * self.stride + shift
        stop = start + (last - first - 1) * self.stride + 1 if last > first else start
        return slice(first, last), slice(start, stop, self.stride)

    def counts(self, *, pads: bool) -> np.ndarray:
        """How many elements of each window lie inside the input, or inside the padded input. int64 ``[out]``."""
        begin, end = (-self.pad_begin, self.size + self.pad_end) if pads else (0, self.size)
        starts = np.arange(self.out) * self.stride - self.pad_begin
        first, last = (np.clip(-((starts - at) // self.dilation), 0, self.kernel) for at in (begin, end))
        return np.maximum(last - first, 0)

    def part(self, start: int, stop: int) -> Axis:
        """The same input, seen by the windows from ``start`` to ``stop`` only."""
        return replace(self, pad_begin=self.pad_begin - start * self.stride, out=stop - start)


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """What a node says of its windows; None where it leaves the default to the shapes."""

    kernel: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    dilations: tuple[int, ...] | None
    pads: tuple[int, ...] | None
    auto_pad: str
    ceil_mode: bool
    partial: bool = False

    @classmethod
    def of(cls, node: NodeSpec, *, partial: bool = False) -> WindowSpec:
        """Read the attributes that convolutions and pooling share.

        Args:
            node: A convolution or a pooling operator.
            partial: Whether an input that is too short for a window by less than a stride makes one window all the
                same, as ONNX Runtime's pooling and onnx's shape inference have it.

        Raises:
            InvalidGraphError: for an unknown ``auto_pad``, and for sizes and steps that are not positive.
        """
        auto_pad = node.attr("auto_pad", "NOTSET") or "NOTSET"
        if auto_pad not in _AUTO_PADS:
            raise InvalidGraphError(f"{node} has auto_pad {auto_pad!r}; known are {', '.join(_AUTO_PADS)}")
        for name in ("kernel_shape", "strides", "dilations"):
            if min(node.attr(name) or (1,)) < 1:
                raise InvalidGraphError(f"{node} has {name} {list(node.attr(name))}; they must be at least 1")
        return cls(
            kernel=node.attr("kernel_shape"),
            strides=node.attr("strides"),
            dilations=node.attr("dilations"),
            pads=node.attr("pads"),
            auto_pad=auto_pad,
            ceil_mode=bool(node.attr("ceil_mode", 0)),
            partial=partial,
        )

    def axes(self, sizes: Sequence[int], kernel: Sequence[int] | None = None) -> tuple[Axis, ...]:
        """The axes of an input of those spatial sizes; ``kernel`` is that of the weights, where there are any.

        Raises:
            KernelError: when they do not fit what the node says.
        """
        if self.kernel and kernel and tuple(self.kernel) != tuple(kernel):
            raise KernelError(f"kernel_shape {list(self.kernel)} is not that of the weights, {list(kernel)}")
        kernels = tuple(self.kernel or kernel or ())
        rank = len(sizes)
        strides, dilations = self.strides or (1,) * rank, self.dilations or (1,) * rank
        pads = self.pads or (0,) * (2 * rank)
        if not len(kernels) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
            raise KernelError(
                f"kernel {kernels}, strides {strides}, dilations {dilations}, pads {pads} do not fit"
                f" {rank} spatial axes {tuple(sizes)}"
            )
        return tuple(
            self._axis(Axis(size, k, s, d, begin, end))
            for size, k, s, d, begin, end in zip(
                sizes, kernels, strides, dilations, pads[:rank], pads[rank:], strict=True
            )
        )

    def _axis(self, axis: Axis) -> Axis:
        if self.auto_pad.startswith("SAME"):
            out = -(-axis.size // axis.stride)
            total = max(0, (out - 1) * axis.stride + axis.extent - axis.size)
            begin = total // 2 if self.auto_pad == "SAME_UPPER" else total - total // 2
            return replace(axis, pad_begin=begin, pad_end=total - begin, out=out)
        if self.auto_pad == "VALID":
            axis = replace(axis, pad_begin=0, pad_end=0)
        room = axis.size + axis.pad_begin + axis.pad_end - axis.extent
        out = (-(-room // axis.stride) if self.ceil_mode else room // axis.stride) + 1
        if self.partial and -axis.stride < room < 0 < axis.size:
            out = 1
        if self.ceil_mode and (out - 1) * axis.stride >= axis.size + axis.pad_begin:
            out -= 1  # a window that would start behind the input is none
        return replace(axis, out=max(0, out))


def out_shape(axes: Sequence[Axis]) -> tuple[int, ...]:
    """Number of windows along each axis."""
    return tuple(axis.out for axis in axes)


def padded(x: np.ndarray, axes: Sequence[Axis], value: float = 0) -> tuple[np.ndarray, tuple[Axis, ...]]:
    """Add (or cut) elements around the last axes so that every window lies inside; and the axes of the result.

    Returns the input itself where nothing is to be added.
    """
    sizes = tuple(
        (axis.out - 1) * axis.stride + axis.extent if axis.out else axis.pad_begin + axis.size
        for axis in axes
    )
    inner = tuple(
        replace(axis, size=size, pad_begin=0, pad_end=0) for axis, size in zip(axes, sizes, strict=True)
    )
    if all(axis.pad_begin == 0 and axis.size >= size for axis, size in zip(axes, sizes, strict=True)):
        return x, tuple(replace(a, size=b.size) for a, b in zip(inner, axes, strict=True))
    result = np.full((*x.shape[: x.ndim - len(axes)], *sizes), value, x.dtype)
    source, target = [], []
    for axis, size in zip(axes, sizes, strict=True):
        begin, end = max(0, -axis.pad_begin), min(axis.size, size - axis.pad_begin)
        source.append(slice(begin, max(begin, end)))
        target.append(slice(begin + axis.pad_begin, max(begin, end) + axis.pad_begin))
    result[..., *target] = x[..., *source]
    return result, inner


def windows(x: np.ndarray, axes: Sequence[Axis]) -> np.ndarray:
    """A view ``[..., *kernel, *out]`` of an input (``[..., *size]``) whose windows all lie inside it."""
    lead, strides = x.shape[: x.ndim - len(axes)], x.strides[x.ndim - len(axes) :]
    return np.lib.stride_tricks.as_strided(
        x,
        (*lead, *(axis.kernel for axis in axes), *(axis.out for axis in axes)),
        (
            *x.strides[: len(lead)],
            *(stride * axis.dilation for stride, axis in zip(strides, axes, strict=True)),
            *(stride * axis.stride for stride, axis in zip(strides, axes, strict=True)),
        ),
        writeable=False,
    )
