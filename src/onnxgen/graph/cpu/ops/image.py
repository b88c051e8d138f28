"""Rearranging and reading images: ``DepthToSpace``, ``SpaceToDepth``, ``CenterCropPad``, ``ImageDecoder``."""

from __future__ import annotations

import importlib
import importlib.util
import io

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_axes, filled, integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


def _blocks(node: NodeSpec) -> tuple[int, bool]:
    """Elements of a block's side, and whether depth comes before the blocks."""
    size, mode = node.attr("blocksize"), node.attr("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise InvalidGraphError(f"{node} has mode {mode!r}; known are DCR and CRD")
    if size < 1:
        raise InvalidGraphError(f"{node} has blocksize {size}; it must be at least 1")
    return size, mode == "CRD"


@TABLE.operator("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(node: NodeSpec) -> Kernel:
    """Move blocks of channels into height and width."""
    block, column_first = _blocks(node)

    def run(x: np.ndarray) -> np.ndarray:
        batch, channels, height, width = x.shape
        depth, rest = divmod(channels, block * block)
        if rest:
            raise KernelError(f"{node}: {channels} channels are no multiple of {block} x {block}")
        if column_first:
            parts = x.reshape(batch, depth, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
        else:
            parts = x.reshape(batch, block, block, depth, height, width).transpose(0, 3, 4, 1, 5, 2)
        return np.array(parts).reshape(batch, depth, height * block, width * block)

    return Kernel(run)


@TABLE.operator("SpaceToDepth", 1, 13, 28)
def space_to_depth(node: NodeSpec) -> Kernel:
    """Move blocks of height and width into channels."""
    block, column_first = _blocks(node)

    def run(x: np.ndarray) -> np.ndarray:
        batch, depth, height, width = x.shape
        if height % block or width % block:
            raise KernelError(f"{node}: {height} x {width} is not made of blocks of {block} x {block}")
        parts = x.reshape(batch, depth, height // block, block, width // block, block)
        order = (0, 1, 3, 5, 2, 4) if column_first else (0, 3, 5, 1, 2, 4)
        blocks = np.array(parts.transpose(order))
        return blocks.reshape(batch, depth * block * block, height // block, width // block)

    return Kernel(run)


@TABLE.operator("CenterCropPad", 18)
def center_crop_pad(node: NodeSpec) -> Kernel:
    """Cut or zero-pad around the centre to ``shape``, along ``axes`` or all; an odd element goes to the end."""
    axes = node.attr("axes")

    def run(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        target, source, out = [slice(None)] * x.ndim, [slice(None)] * x.ndim, list(x.shape)
        sizes, places = integers(shape), range(x.ndim) if axes is None else checked_axes(node, axes, x.ndim)
        if len(sizes) != len(places) or min(sizes, default=0) < 0:
            raise KernelError(f"{node}: shape {sizes} does not fit axes {list(places)} of {x.shape}")
        for axis, size in zip(places, sizes, strict=True):
            have, kept = x.shape[axis], min(size, x.shape[axis])
            out[axis] = size
            source[axis] = slice((have - kept) // 2, (have - kept) // 2 + kept)
            target[axis] = slice((size - kept) // 2, (size - kept) // 2 + kept)
        require_memory(node, out, x.dtype)
        y = filled(tuple(out), x.dtype)
        y[tuple(target)] = x[tuple(source)]
        return y

    return Kernel(run)


def _no_decoder(node: NodeSpec) -> str | None:
    return (
        None
        if importlib.util.find_spec("PIL")
        else "needs Pillow, which is not installed (pip install pillow)"
    )


@TABLE.operator("ImageDecoder", 20, why_not=_no_decoder)
def image_decoder(node: NodeSpec) -> Kernel:
    """Decode the bytes of an image file into ``[height, width, channels]`` uint8."""
    pixel_format = node.attr("pixel_format", "RGB")
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise InvalidGraphError(f"{node} has pixel_format {pixel_format!r}; known are RGB, BGR, Grayscale")

    def run(encoded: np.ndarray) -> np.ndarray:
        images = importlib.import_module("PIL.Image")  # an optional package, which `why_not` has found
        with images.open(io.BytesIO(encoded.tobytes())) as image:
            decoded = np.array(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
        if pixel_format == "Grayscale":
            return decoded[:, :, None]
        return np.ascontiguousarray(decoded[:, :, ::-1]) if pixel_format == "BGR" else decoded

    return Kernel(run)
