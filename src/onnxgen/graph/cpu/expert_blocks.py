"""Experts with packed blocks as one table of calls: nothing of Python runs between an expert and the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.block_products import BlockProducts
from onnxgen.graph.cpu.compiled.header import HEADER_WORDS
from onnxgen.graph.cpu.expert_activation import ExpertActivation
from onnxgen.graph.cpu.parts_by_rows import PartsByRows
from onnxgen.graph.cpu.row_kernels import parts_of_elements, quantize_kernel
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.node_calls import CallList, workspace

_OPERATIONS_PER_S, _BYTES_PER_S, _FLOATS_PER_S = 200e9, 20e9, 1e9
"""Of one thread, roughly: to tell what is worth sharing."""


class StackedBlocks:
    """The matrices of all experts in one layer, of one format.

    Args:
        products: One for each expert.
        bias: float32 ``[experts, outputs]``, C-contiguous, or None.
    """

    def __init__(self, products: Sequence[BlockProducts], bias: np.ndarray | None) -> None:
        packed = products[0].packed
        own = [product.packed.product_arguments() for product in products]
        self.form, self.depth, self.outputs = packed.form, packed.depth, products[0].columns
        self.kernel = packed.product()
        self.weights = np.array([each["weights"] for each in own], np.int64)
        self.sizes = own[0]["groups"], own[0]["panels"], own[0]["columns"]
        self.biases = np.zeros(len(products), np.int64)
        if bias is not None:
            self.biases[:] = bias.ctypes.data + np.arange(len(products)) * bias.strides[0]
        self.parts = PartsByRows(packed)
        self.num_bytes, self.groups = packed.num_bytes, packed.groups
        self.q_stride = packed.groups * packed.form.group * (2 if packed.form.words else 1)
        self._held = products, bias

    @property
    def quantize(self) -> StepKernel:
        """The kernel that makes the activations that it takes."""
        return quantize_kernel("int16" if self.form.words else "int8", self.form.group)


def stack(products: Sequence[BlockProducts], bias: np.ndarray | None) -> StackedBlocks | None:
    """The layer of these products; None where their formats differ."""
    same = all(product.packed.form == products[0].packed.form for product in products)
    return StackedBlocks(products, bias) if same else None


@dataclass(frozen=True, slots=True)
class Integers:
    """Where quantized rows lie, and the bytes between rows."""

    q: int
    scale: int
    total: int
    q_stride: int
    scale_stride: int

    def fill(self, words: np.ndarray, starts: np.ndarray) -> None:
        """Arguments of products, ``words [..., 5]``, for groups of rows that start there."""
        scales = starts * self.scale_stride
        words[:, 0] = self.q + starts * self.q_stride
        words[:, 1] = self.scale + scales
        words[:, 2] = self.total + scales
        words[:, 3:] = self.q_stride, self.scale_stride


class TableOfExperts:
    """The layers of a mixture whose experts all have packed blocks. May be used from several threads.

    Args:
        first: Layers whose results lie side by side.
        activation: What comes between.
        second: The other layer.
        mix: The kernel that mixes results (`compiled.expert_routes.mix`).
    """

    def __init__(
        self,
        first: Sequence[StackedBlocks],
        activation: ExpertActivation,
        second: StackedBlocks,
        mix: StepKernel,
    ) -> None:
        self._first, self._activation, self._second = first, activation, second
        self._width = sum(layer.outputs for layer in first)
        kernels = [layer.kernel for layer in first]
        kernels += [activation.kernel, second.kernel, mix]
        kernels += [first[0].quantize, second.quantize]
        self._calls = CallList(*kernels)

    def run(
        self, x: np.ndarray, experts: np.ndarray, edges: np.ndarray, mixed: Sequence[int], y: np.ndarray
    ) -> None:
        """Send rows through their experts and mix what they return.

        Args:
            x: float32 ``[rows, inputs]``, sorted by expert.
            experts: int64 ``[groups]``.
            edges: int64 ``[groups + 1]``: where the rows of each begin.
            mixed: Arguments of mixing after ``returned`` and ``width``, but for ``y``.
            y: float32 ``[tokens, outputs]``.
        """
        rows, inner = len(x), self._second.depth
        hidden, between, returned, *integers = workspace().addresses(
            4 * rows * self._width,
            4 * rows * inner,
            4 * rows * self._second.outputs,
            *_integer_bytes(self._first[0], rows),
            *_integer_bytes(self._second, rows),
        )
        layers, num = len(self._first), len(experts)
        given, passed = _integers(self._first[0], integers[:3]), _integers(self._second, integers[3:])
        activate, second, mix, quantize_first, quantize_second = range(layers, layers + 5)
        kernels = [quantize_first, *(layer for layer in range(layers) for _ in range(num))]
        kernels += [activate, quantize_second, *[second] * num, mix]
        words = self._calls.rows(kernels)
        header = np.zeros(HEADER_WORDS + 1 + num, np.int64)
        header[HEADER_WORDS], header[HEADER_WORDS + 1 :] = rows, np.diff(edges)

        _fill(words[0], _quantized(x.ctypes.data, self._first[0], given))
        column, at = 0, 1
        for layer in self._first:
            _products(
                words[at : at + num], layer, experts, edges, given, hidden + 4 * column, 4 * self._width
            )
            column, at = column + layer.outputs, at + num
        _fill(words[at], self._activation.words(hidden, rows, inner, between))
        _fill(words[at + 1], _quantized(between, self._second, passed))
        at += 2
        _products(
            words[at : at + num], self._second, experts, edges, passed, returned, 4 * self._second.outputs
        )
        _fill(words[at + num], (returned, self._second.outputs, *mixed, y.ctypes.data))
        counts = np.diff(edges).tolist()
        parts = [parts_of_elements(rows, x.shape[1])]
        parts += [layer.parts(count) for layer in self._first for count in counts]
        parts += [rows, parts_of_elements(rows, inner)]
        parts += [*(self._second.parts(count) for count in counts), len(y)]
        operations = 2 * rows * (x.shape[1] * self._width + inner * self._second.outputs)
        num_bytes = num * sum(layer.num_bytes for layer in (*self._first, self._second))
        seconds = max(operations / _OPERATIONS_PER_S, num_bytes / _BYTES_PER_S) + x.size / _FLOATS_PER_S
        self._calls.run(words, kernels, parts, header=header, seconds=seconds)


def _integer_bytes(layer: StackedBlocks, rows: int) -> tuple[int, int, int]:
    return rows * layer.q_stride, 4 * rows * layer.groups, 4 * rows * layer.groups


def _integers(layer: StackedBlocks, places: Sequence[int]) -> Integers:
    q, scale, total = places
    return Integers(q, scale, total, layer.q_stride, 4 * layer.groups)


def _quantized(x: int, layer: StackedBlocks, to: Integers) -> tuple[int, ...]:
    """Arguments of quantizing all rows."""
    groups, depth = layer.groups, layer.depth
    return HEADER_WORDS, depth, x, depth, to.q, groups * layer.form.group, to.scale, groups, to.total


def _products(
    words: np.ndarray,
    layer: StackedBlocks,
    experts: np.ndarray,
    edges: np.ndarray,
    x: Integers,
    y: int,
    y_stride: int,
) -> None:
    """Arguments of a layer's products, one for each group of rows."""
    starts = edges[:-1]
    words[:, 1] = HEADER_WORDS + 1 + np.arange(len(words))
    x.fill(words[:, 2:7], starts)
    words[:, 7] = layer.weights[experts]
    words[:, 8:11] = layer.sizes
    words[:, 11] = y + starts * y_stride
    words[:, 12] = y_stride
    words[:, 13] = layer.biases[experts]
    words[:, 14] = 0


def _fill(words: np.ndarray, arguments: Sequence[int]) -> None:
    words[1 : 1 + len(arguments)] = arguments
