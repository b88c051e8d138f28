"""Quantized matrices and activations for tests, products of them in float64, and the kernels over them."""

from __future__ import annotations

import dataclasses

import numpy as np

from onnxgen.foundations.packed_bits import pack, unpack
from onnxgen.graph.cpu.aligned_memory import aligned
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS
from onnxgen.graph.cpu.packed_blocks import BlockMatrix, PackedBlocks
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.table import StepShape, StepTable

ROWS_WORD, IDS_WORD = 2, 3


def random_matrix(rng, columns, depth, bits=4, block=32, zeros="middle", *, scales=np.float16):
    """A matrix with weights of about one hundredth."""
    blocks = -(-depth // block)
    codes = rng.integers(0, 256, (columns, blocks, block * bits // 8), dtype=np.uint8)
    factors = (rng.random((columns, blocks)) * 0.02 + 0.001).astype(scales)
    points = None
    if zeros == "bytes":
        values = rng.integers(0, 1 << bits, (columns, blocks), dtype=np.uint8)
        points = values if bits == 8 else np.stack([pack(row, bits) for row in values])
    elif zeros == "offsets":
        points = (rng.random((columns, blocks)) * (1 << bits)).astype(np.float32)
    return BlockMatrix(codes, factors, points, depth, bits, block)


def weights_of(matrix):
    """float64 ``[columns, depth]`` of its definition."""
    blocks = -(-matrix.depth // matrix.block)
    values = unpack(matrix.codes.reshape(matrix.columns, blocks, -1), matrix.bits, matrix.block).astype(float)
    if matrix.zeros is None:
        zeros = np.float64(1 << (matrix.bits - 1))
    elif matrix.zeros.dtype == np.uint8:
        zeros = unpack(matrix.zeros, matrix.bits, blocks).astype(float)[:, :, None]
    else:
        zeros = matrix.zeros.astype(float)[:, :, None]
    products = (values - zeros) * matrix.scales.astype(float)[:, :, None]
    return products.reshape(matrix.columns, -1)[:, : matrix.depth]


class Activations:
    """Rows of float32, quantized by groups.

    Attributes:
        q: int8 or int16 ``[rows, padded depth]``.
        scales: float32 ``[rows, groups]``.
        sums: int32 ``[rows, groups]``.
    """

    def __init__(self, x, group=32, *, words=False):
        most, kind = (32767, np.int16) if words else (127, np.int8)
        rows, depth = x.shape
        groups = -(-depth // group)
        padded = np.zeros((rows, groups * group), np.float32)
        padded[:, :depth] = x
        parts = padded.reshape(rows, groups, group)
        self.scales = np.abs(parts).max(2) / np.float32(most)
        factors = np.where(self.scales > 0, 1 / np.where(self.scales > 0, self.scales, 1), 0)
        q = np.rint(parts * factors[:, :, None]).astype(kind)
        self.sums = q.sum(2, dtype=np.int32)
        self.q = q.reshape(rows, -1)

    def values(self, depth):
        """float64 ``[rows, depth]`` of what the quantized numbers mean."""
        rows, groups = self.scales.shape
        parts = self.q.reshape(rows, groups, -1) * self.scales.astype(float)[:, :, None]
        return parts.reshape(rows, -1)[:, :depth]

    def arguments(self):
        return {
            "x": self.q.ctypes.data,
            "scales": self.scales.ctypes.data,
            "sums": self.sums.ctypes.data,
            "x_stride": self.q.strides[0],
            "scale_stride": self.scales.strides[0],
        }


def padded_rows(rows, columns, fill=np.nan):
    """float32 ``[rows, columns]`` with room behind each row, which must stay as it is."""
    memory = np.full((rows, columns + 3), fill, np.float32)
    return memory, memory[:, :columns]


def product_kernel(packed, gate=None, **changed):
    """The kernel of a product, with other parameters than this machine's best."""
    kernel = packed.product(gate)
    return dataclasses.replace(
        kernel, parameters=tuple(sorted({**dict(kernel.parameters), **changed}.items()))
    )


def product_table(packed: PackedBlocks, x: Activations, y, kernel, *, bias=None, further=0, parts=None):
    """A step of one product."""
    table = StepTable()
    table.keep(packed, x, y, bias)
    table.add(
        kernel,
        parts=packed.parts(len(x.q)) if parts is None else parts,
        rows_word=ROWS_WORD,
        **x.arguments(),
        **packed.product_arguments(),
        y=y.ctypes.data,
        y_stride=y.strides[0],
        bias=0 if bias is None else bias.ctypes.data,
        further=further,
    )
    return table


def run(table, rows, *, threads=1, ids=None):
    """Run a step of so many rows."""
    header = aligned(8 * HEADER_WORDS).view(np.int64)
    header[ROWS_WORD] = rows
    if ids is not None:
        header[IDS_WORD] = ids.ctypes.data
    crew().run(table, table.counts(StepShape(tokens=rows, rows=rows)), header, threads=threads)


def multiply(packed, x, *, gate=None, bias=None, onto=None, parts=None, threads=1, **changed):
    """The product as float32 ``[rows, columns]``; on top of ``onto`` where that is given."""
    rows = len(x.q)
    memory, y = padded_rows(rows, packed.product_arguments()["columns"])
    if onto is not None:
        y[:] = onto
    further = int(onto is not None)
    kernel = product_kernel(packed, gate, **changed)
    table = product_table(packed, x, y, kernel, bias=bias, further=further, parts=parts)
    run(table, rows, threads=threads)
    assert np.isnan(memory[:, y.shape[1] :]).all(), "the kernel wrote behind its rows"
    return y.copy()
