"""Matrices of a checkpoint as the emitter wants them: rows of one or several tensors, in floats or blocks.

Nothing here keeps an array: what is loaded is the caller's, and goes when the caller lets go of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.builder.options import BuildOptions
from onnxgen.builder.quantize import concat_rows, quantize_blocks
from onnxgen.builder.weights import BlockQuantized, WeightSource
from onnxgen.errors import BuildError, CheckpointError

_PIECE_BYTES = 8 << 20
_FLOAT_TYPES = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a stored matrix.

    Attributes:
        tensor: Name of the matrix.
        start: First row.
        count: How many.
        total: Rows the whole matrix must have.
    """

    tensor: str
    start: int
    count: int
    total: int


class Matrices:
    """Reads matrices and vectors of a checkpoint, checking their shapes."""

    def __init__(self, source: WeightSource, options: BuildOptions) -> None:
        self._source = source
        self._options = options

    def check(self, name: str, shape: tuple[int, ...]) -> None:
        """Refuse a tensor that is missing or of another shape.

        Raises:
            CheckpointError: Naming the tensor and both shapes.
        """
        if name not in self._source.names:
            raise CheckpointError(f"{self._source.path}: tensor {name!r} is missing")
        found = self._source.shape(name)
        if found != shape:
            raise CheckpointError(
                f"{self._source.path}: tensor {name!r} has shape {list(found)}, "
                f"the configuration asks for {list(shape)}"
            )

    def vector(self, name: str, size: int) -> npt.NDArray[np.float32]:
        """A vector in float32 ``[size]``.

        Raises:
            BuildError: It holds values that are not finite.
        """
        self.check(name, (size,))
        return self._convert(name, self._source.load(name), np.float32)

    def load(self, rows: Rows, columns: int) -> npt.NDArray[Any]:
        """Rows as they are stored, ``[count, columns]``."""
        self.check(rows.tensor, (rows.total, columns))
        return self._source.load(rows.tensor)[rows.start : rows.start + rows.count]

    def row_pieces(
        self, parts: Sequence[Rows], columns: int, dtype: npt.DTypeLike
    ) -> Iterator[npt.NDArray[Any]]:
        """The matrix ``[rows, columns]`` of all parts, in consecutive pieces of ``dtype``."""
        for part in parts:
            stored = self.load(part, columns)
            step = max(1, _PIECE_BYTES // (4 * columns))
            for start in range(0, part.count, step):
                yield self._convert(part.tensor, stored[start : start + step], dtype)

    def column_pieces(
        self, parts: Sequence[Rows], columns: int, dtype: npt.DTypeLike
    ) -> Iterator[npt.NDArray[Any]]:
        """The transposed matrix ``[columns, rows]`` of all parts, in consecutive pieces of ``dtype``."""
        stored = [(part.tensor, self.load(part, columns)) for part in parts]
        total = sum(part.count for part in parts)
        step = max(1, _PIECE_BYTES // (4 * total))
        for start in range(0, columns, step):
            converted = [self._convert(name, array[:, start : start + step], dtype) for name, array in stored]
            yield np.concatenate([piece.T for piece in converted], axis=1)

    def blocks(self, parts: Sequence[Rows], columns: int, *, bits: int) -> list[BlockQuantized]:
        """The matrix of all parts in blocks: one if their formats agree, else one for each part."""
        made = [self._part_blocks(part, columns, bits=bits) for part in parts]
        if len({_format_of(blocks) for blocks in made}) > 1:
            return made
        joined = made[0] if len(made) == 1 else concat_rows(made)
        assert joined is not None, "blocks of one format can be stacked"
        return [joined]

    def _part_blocks(self, part: Rows, columns: int, *, bits: int) -> BlockQuantized:
        self.check(part.tensor, (part.total, columns))
        if not self._options.requantize:
            stored = self._source.load_blocks(part.tensor)
            if stored is not None:
                return _take_rows(stored, part.start, part.count)
            if self._source.stored_type(part.tensor) not in _FLOAT_TYPES:
                bits = 8  # blocks of a kind we cannot hold exactly: lose as little as possible
        try:
            return quantize_blocks(
                self.load(part, columns),
                bits=bits,
                block_size=self._options.block_size,
                symmetric=self._options.symmetric,
            )
        except BuildError as cause:
            raise BuildError(f"{self._source.path}: tensor {part.tensor!r}: {cause}") from cause

    def _convert(self, name: str, values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        with np.errstate(over="ignore"):
            converted = values.astype(np.float32, copy=False).astype(dtype, copy=False)
        if not np.isfinite(converted.astype(np.float32, copy=False)).all():
            worst = float(np.max(np.abs(values.astype(np.float32))))
            if not np.isfinite(worst):
                raise BuildError(
                    f"{self._source.path}: tensor {name!r} holds values that are infinite or no numbers; the "
                    "checkpoint is broken, fetch it again"
                )
            raise BuildError(
                f"{self._source.path}: tensor {name!r} has values that {np.dtype(dtype)} cannot hold "
                f"(largest magnitude {worst:g}); use precision bf16 or fp32, or mend the checkpoint"
            )
        return converted


def _format_of(blocks: BlockQuantized) -> tuple[object, ...]:
    zero_points = blocks.zero_points
    return blocks.bits, blocks.block_size, None if zero_points is None else zero_points.dtype


def _take_rows(blocks: BlockQuantized, start: int, count: int) -> BlockQuantized:
    stop = start + count
    if start == 0 and count == blocks.codes.shape[0]:
        return blocks
    zero_points = blocks.zero_points
    return BlockQuantized(
        blocks.bits,
        blocks.block_size,
        blocks.in_features,
        blocks.codes[start:stop],
        blocks.scales[start:stop],
        None if zero_points is None else zero_points[start:stop],
    )
