"""Signal processing: Fourier transforms, windows, the mel filter bank."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_axis, scalar
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()

_COMPUTED = np.dtype(np.float64)


def fourier(x: np.ndarray, length: int, axis: int, *, onesided: bool, inverse: bool) -> np.ndarray:
    """The transform of ``x [..., 1 or 2]`` (real, or real and imaginary part) along an axis, cut or padded to ``length``.

    Returns:
        Real and imaginary part ``[..., 2]``; the first ``length // 2 + 1`` frequencies when ``onesided``. The inverse
        of a one-sided spectrum is real: ``[..., 1]``.
    """
    wide = widened(x)
    signal = wide[..., 0] if x.shape[-1] == 1 else wide[..., 0] + 1j * wide[..., 1]
    if inverse and onesided:
        return np.fft.irfft(signal, length, axis)[..., None].astype(x.dtype)
    if inverse:
        spectrum = np.fft.ifft(signal, length, axis)
    elif onesided and x.shape[-1] == 1:
        spectrum = np.fft.rfft(signal, length, axis)
    else:
        spectrum = np.fft.fft(signal, length, axis)
        if onesided:
            spectrum = spectrum[(slice(None),) * axis + (slice(length // 2 + 1),)]
    return np.stack([spectrum.real, spectrum.imag], -1).astype(x.dtype, copy=False)


def _dft(node: NodeSpec, x: np.ndarray, length: np.ndarray | None, axis: int) -> np.ndarray:
    onesided, inverse = bool(node.attr("onesided", 0)), bool(node.attr("inverse", 0))
    axis = checked_axis(node, axis, x.ndim)
    size = 2 * (x.shape[axis] - 1) if onesided and inverse else x.shape[axis]
    size = size if length is None else scalar(node, length, "dft_length")
    if size < 1 or axis == x.ndim - 1:
        raise KernelError(f"{node}: no transform of length {size} along axis {axis} of {x.shape}")
    require_memory(node, (*x.shape[:axis], size, *x.shape[axis + 1 : -1]), np.dtype(np.complex64))
    return fourier(x, size, axis, onesided=onesided, inverse=inverse)


@TABLE.operator("DFT", 17)
def dft_17(node: NodeSpec) -> Kernel:
    """The discrete Fourier transform along the attribute ``axis``, by default 1."""

    def run(x: np.ndarray, length: np.ndarray | None = None) -> np.ndarray:
        return _dft(node, x, length, node.attr("axis", 1))

    return Kernel(run)


@TABLE.operator("DFT", 20)
def dft(node: NodeSpec) -> Kernel:
    """The discrete Fourier transform along the input ``axis``, by default the last before the parts of the numbers."""

    def run(x: np.ndarray, length: np.ndarray | None = None, axis: np.ndarray | None = None) -> np.ndarray:
        return _dft(node, x, length, -2 if axis is None else scalar(node, axis, "axis"))

    return Kernel(run)


@TABLE.operator("STFT", 17)
def stft(node: NodeSpec) -> Kernel:
    """Transforms of overlapping frames of ``signal [batch, length, 1 or 2]``: ``[batch, frames, frequencies, 2]``.

    Real signals come without their last dimension too: exporters leave it out, and ONNX Runtime reads them.
    """
    onesided = bool(node.attr("onesided", 1))

    def run(
        signal: np.ndarray,
        frame_step: np.ndarray,
        window: np.ndarray | None = None,
        frame_length: np.ndarray | None = None,
    ) -> np.ndarray:
        if frame_length is not None:
            length = scalar(node, frame_length, "frame_length")
        elif window is not None:
            length = len(window)
        else:
            raise KernelError(f"{node}: has neither a window nor a frame_length")
        step = scalar(node, frame_step, "frame_step")
        signal = signal[..., None] if signal.ndim == 2 else signal
        if step < 1 or not 1 <= length <= signal.shape[1] or (window is not None and len(window) > length):
            raise KernelError(
                f"{node}: frames of {length}, {step} apart, do not fit a signal of {signal.shape[1]}"
                + ("" if window is None else f" and a window of {len(window)}")
            )
        frames = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)
        frames = frames[:, ::step].swapaxes(2, 3)  # [batch, frames, length, 1 or 2]
        require_memory(node, frames.shape, np.dtype(np.complex64))
        if window is not None:
            frames = frames[:, :, : len(window)] * window[:, None]
        return fourier(frames, length, 2, onesided=onesided, inverse=False).astype(signal.dtype, copy=False)

    return Kernel(run)


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@TABLE.operator("HannWindow", 17)
@TABLE.operator("HammingWindow", 17)
@TABLE.operator("BlackmanWindow", 17)
def window(node: NodeSpec) -> Kernel:
    """A sum of cosines over ``size`` samples; periodic ones leave out the last of ``size + 1``."""
    constant, first, second = _WINDOWS[node.op_type]
    periodic, dtype = bool(node.attr("periodic", 1)), _output_dtype(node)

    def run(size: np.ndarray) -> np.ndarray:
        samples = scalar(node, size, "size")
        if samples < 0:
            raise KernelError(f"{node}: size {samples} is negative")
        require_memory(node, (samples,), _COMPUTED)
        turn = 2 * np.pi * np.arange(samples) / max(1, samples if periodic else samples - 1)
        return (constant - first * np.cos(turn) + second * np.cos(2 * turn)).astype(dtype)

    return Kernel(run)


@TABLE.operator("MelWeightMatrix", 17)
def mel_weight_matrix(node: NodeSpec) -> Kernel:
    """Triangles that are evenly spaced in mels: ``[dft_length // 2 + 1, num_mel_bins]``."""
    dtype = _output_dtype(node)

    def run(
        num_mel_bins: np.ndarray,
        dft_length: np.ndarray,
        sample_rate: np.ndarray,
        lower_edge_hertz: np.ndarray,
        upper_edge_hertz: np.ndarray,
    ) -> np.ndarray:
        bins, length = scalar(node, num_mel_bins, "num_mel_bins"), scalar(node, dft_length, "dft_length")
        rate = float(scalar(node, sample_rate, "sample_rate"))
        if bins < 0 or length < 0 or rate <= 0:
            raise KernelError(
                f"{node}: {bins} bins of transforms of length {length} at {rate} Hz are no matrix"
            )
        require_memory(node, (length // 2 + 1, bins), _COMPUTED)
        lowest, highest = (scalar(node, edge, "an edge") for edge in (lower_edge_hertz, upper_edge_hertz))
        low, high = (2595 * np.log10(1 + edge / 700) for edge in (lowest, highest))
        mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
        hertz = 700 * (10 ** (mels / 2595) - 1)
        places = (length + 1) * hertz // rate
        if not (places >= 0).all() or not (places <= length // 2 + 1).all():
            raise KernelError(
                f"{node}: {lowest} to {highest} Hz lie outside of the frequencies of transforms of length {length} at {rate} Hz"
            )
        edges = places.astype(int)
        y = np.zeros((length // 2 + 1, bins))
        for column, (left, centre, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
            if centre > left:
                y[left : centre + 1, column] = np.arange(centre - left + 1) / (centre - left)
            else:
                y[centre, column] = 1
            if right > centre:
                y[centre:right, column] = np.arange(right - centre, 0, -1) / (right - centre)
        return y.astype(dtype)

    return Kernel(run)


def _output_dtype(node: NodeSpec) -> np.dtype:
    return numpy_dtype(ir.DataType(node.attr("output_datatype", ir.DataType.FLOAT.value)))
