"""Tensors of GGUF files as arrays and quantized blocks, read in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxgen.builder.gguf.blocks import BLOCK_FORMATS, with_zero_points
from onnxgen.builder.gguf.ggml_types import GgmlType
from onnxgen.builder.gguf.reader import GgufFile, GgufTensor
from onnxgen.builder.packing import pack_codes
from onnxgen.builder.quantize import row_chunks
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import CheckpointError

_FLOATS: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
_BLOCKS = (
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
    "IQ1_M", "IQ1_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ3_S", "IQ3_XXS", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4",
)  # fmt: skip

LOADABLE = (*_FLOATS, *_BLOCKS)
"""Names of the types that `load_values` reads."""

RowOrder = npt.NDArray[np.intp]
"""Row ``i`` of the result is row ``order[i]`` of the file."""


def load_values(file: GgufFile, tensor: GgufTensor, order: RowOrder | None = None) -> npt.NDArray[Any]:
    """Read a tensor: float32, float16 and bfloat16 as they are, blocks dequantized to float32.

    Args:
        file: The file.
        tensor: Its line in the tensor table.
        order: Rows (entries of a vector) in another order.

    Raises:
        CheckpointError: The type is not known, bytes are missing, or blocks hold no finite numbers.
    """
    kind = _loadable(file, tensor)
    dtype = _FLOATS.get(kind.name)
    if len(tensor.shape) < 2 and dtype is not None:
        values = file.read_bytes(tensor, 0, int(np.prod(tensor.shape)) * kind.block_bytes).view(dtype)
        return values.reshape(tensor.shape) if order is None else values[order]
    rows, columns = _matrix_shape(tensor)
    targets = None if order is None else np.argsort(order)
    values = np.empty((rows, columns), np.float32 if dtype is None else dtype)
    for chunk, raw in _raw_rows(file, tensor, kind):
        target = chunk if targets is None else targets[chunk]
        values[target] = raw.view(dtype) if dtype is not None else _dequantize(file, tensor, kind, raw)
    return values.reshape(tensor.shape)


def load_blocks(file: GgufFile, tensor: GgufTensor, order: RowOrder | None = None) -> BlockQuantized | None:
    """Read a matrix in its own blocks.

    Returns:
        None when the tensor is no matrix, or its type is not in `BLOCK_FORMATS`.

    Raises:
        CheckpointError: Bytes are missing, or blocks hold no finite numbers.
    """
    kind = tensor.kind
    form = BLOCK_FORMATS.get(kind.name) if kind else None
    if kind is None or form is None or len(tensor.shape) != 2:
        return None
    rows, columns = tensor.shape
    blocks = columns // form.block_size
    codes = np.empty((rows, blocks, form.block_size * form.bits // 8), np.uint8)
    scales = np.empty((rows, blocks), np.float32)
    zero_points = np.empty((rows, blocks), np.float32) if form.float_zero_points else None
    targets = None if order is None else np.argsort(order)
    for chunk, raw in _raw_rows(file, tensor, kind):
        target = chunk if targets is None else targets[chunk]
        with np.errstate(invalid="ignore"):  # checked below
            unpacked = form.unpack(raw.reshape(-1, kind.block_bytes))
        minimums = () if unpacked.minimums is None else unpacked.minimums
        if not (np.isfinite(unpacked.scales).all() and np.isfinite(minimums).all()):
            raise _broken_blocks(file, tensor)
        if zero_points is None:
            chunk_codes, chunk_scales = unpacked.codes, unpacked.scales
        else:
            chunk_codes, chunk_scales, chunk_zeros = with_zero_points(unpacked)
            zero_points[target] = chunk_zeros.reshape(-1, blocks)
        codes[target] = pack_codes(chunk_codes, form.bits).reshape(-1, *codes.shape[1:])
        scales[target] = chunk_scales.reshape(-1, blocks)
    return BlockQuantized(form.bits, form.block_size, columns, codes, scales, zero_points)


def _loadable(file: GgufFile, tensor: GgufTensor) -> GgmlType:
    if tensor.kind is None or tensor.kind.name not in LOADABLE:
        raise CheckpointError(
            f"{file.path}: tensor {tensor.name!r} is stored as {tensor.type_name}, which cannot be read; "
            f"known types are {', '.join(LOADABLE)}"
        )
    return tensor.kind


def _matrix_shape(tensor: GgufTensor) -> tuple[int, int]:
    columns = tensor.shape[-1] if tensor.shape else 1
    return int(np.prod(tensor.shape[:-1], dtype=np.int64)), columns


def _raw_rows(
    file: GgufFile, tensor: GgufTensor, kind: GgmlType
) -> Iterator[tuple[slice, npt.NDArray[np.uint8]]]:
    """Rows of a tensor as stored, uint8 ``[rows, row_bytes]``, a chunk at a time."""
    rows, columns = _matrix_shape(tensor)
    row_bytes = columns // kind.block_size * kind.block_bytes
    for chunk in row_chunks(rows, columns):
        count = chunk.stop - chunk.start
        yield (
            chunk,
            file.read_bytes(tensor, chunk.start * row_bytes, count * row_bytes).reshape(count, row_bytes),
        )


def _dequantize(
    file: GgufFile, tensor: GgufTensor, kind: GgmlType, raw: npt.NDArray[np.uint8]
) -> npt.NDArray[np.float32]:
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    with np.errstate(all="ignore"):
        values = dequantize(raw, GGMLQuantizationType(kind.number))
    if not np.isfinite(values).all():
        raise _broken_blocks(file, tensor)
    return values


def _broken_blocks(file: GgufFile, tensor: GgufTensor) -> CheckpointError:
    return CheckpointError(
        f"{file.path}: blocks of tensor {tensor.name!r} ({tensor.type_name}) are scaled by what is not a finite "
        "number; the file is broken, fetch it again"
    )
