"""Transposed convolution of float32 as dense convolutions, one for each phase of the strides.

Along one axis, with ``o`` an element of the input and ``j`` one of the output::

    j = o * stride + k - pad       j + pad = stride * m + phase      k = phase + stride * t      o = m - t

so the outputs of a phase see every ``stride``-th element of the kernel, backwards, and neighbours of the input.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.tiled_convolution import MOST_AXES, PackedWeights, convolve_tiles
from onnxgen.graph.cpu.windows import Axis


@dataclass(frozen=True, slots=True)
class Phase:
    """The outputs of one phase: their packed weights for each axis' phase; None where no element of the kernel falls."""

    offsets: tuple[int, ...]
    kernel: tuple[int, ...]
    weights: PackedWeights | None


def can_split(dtype: np.dtype, axes: Sequence[Axis]) -> bool:
    """Whether `convolve_phases` takes these axes."""
    plain = all(axis.stride == 1 or axis.dilation == 1 for axis in axes)
    return dtype == np.float32 and 1 <= len(axes) <= MOST_AXES and plain


def pack_phases(
    w: np.ndarray, bias: np.ndarray | None, strides: Sequence[int], *, group: int
) -> tuple[Phase, ...]:
    """Pack float32 ``w [in, out / group, *kernel]`` and ``bias [out]`` for every phase."""
    grouped = w.reshape(group, w.shape[0] // group, *w.shape[1:]).swapaxes(1, 2)  # [group, out, in, *kernel]
    phases: list[Phase] = []
    for offsets in itertools.product(*map(range, strides)):
        part = grouped[(..., *(slice(q, None, s) for q, s in zip(offsets, strides, strict=True)))]
        part = np.flip(part, tuple(range(3, part.ndim)))
        taps = part.shape[3:]
        rows = part.reshape(group * w.shape[1], w.shape[0] // group, *taps)
        phases.append(Phase(offsets, taps, PackedWeights.of(rows, bias, group) if rows.size else None))
    return tuple(phases)


def convolve_phases(
    x: np.ndarray, phases: Sequence[Phase], bias: np.ndarray | None, axes: Sequence[Axis], y: np.ndarray
) -> None:
    """Spread float32 ``x [batch, in, *axes.out]`` over ``y [batch, out, *axes.size]``.

    ``axes`` are those of the convolution that this one transposes: its input is our output.
    """
    for phase in phases:
        firsts = [(q - axis.pad_begin) % axis.stride for q, axis in zip(phase.offsets, axes, strict=True)]
        target = y[
            (..., *(slice(first, None, axis.stride) for first, axis in zip(firsts, axes, strict=True)))
        ]
        if target.size == 0:
            continue
        if phase.weights is None:
            target[...] = 0 if bias is None else bias.reshape(-1, *(1,) * len(axes))
            continue
        dense = [
            Axis(
                size=axis.out,
                kernel=taps,
                dilation=axis.dilation,
                pad_begin=(taps - 1) * axis.dilation - (first + axis.pad_begin - q) // axis.stride,
                out=count,
            )
            for axis, taps, first, q, count in zip(
                axes, phase.kernel, firsts, phase.offsets, target.shape[2:], strict=True
            )
        ]
        if len(phases) == 1:
            convolve_tiles(x, phase.weights, dense, y)
        else:
            target[...] = convolve_tiles(x, phase.weights, dense)
