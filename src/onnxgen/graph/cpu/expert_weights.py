"""Weights of experts as operators give them, into projections (`onnxgen.graph.cpu.experts`)."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.block_products import BlockProducts, needs_words
from onnxgen.graph.cpu.block_weights import BlockWeights, arranged
from onnxgen.graph.cpu.expert_blocks import stack
from onnxgen.graph.cpu.experts import LooseExperts, PackedExperts, Projection
from onnxgen.graph.cpu.float_products import FloatProducts
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.packed_blocks import pack as pack_blocks
from onnxgen.graph.cpu.packed_floats import pack as pack_floats

_PACKED = frozenset({np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)})


def _halves(outputs: np.ndarray) -> np.ndarray:
    """Outputs ``[..., outputs, n]`` that take turns, gates first."""
    return np.concatenate([outputs[..., ::2, :], outputs[..., 1::2, :]], axis=-2)


def _bias(bias: np.ndarray | None, *, in_turns: bool) -> np.ndarray | None:
    if bias is None:
        return None
    wide = np.asarray(widened(bias), np.float32)[..., None]
    return np.ascontiguousarray(_halves(wide) if in_turns else wide).reshape(bias.shape)


def dense_projection(
    weights: np.ndarray, bias: np.ndarray | None, *, in_turns: bool, pack: bool
) -> Projection:
    """A projection of float weights.

    Args:
        weights: ``[experts, outputs, inputs]``.
        bias: ``[experts, outputs]``, or None.
        in_turns: Gates and what they gate take turns among the outputs; the projection has all gates first.
        pack: Whether the weights are worth packing.
    """
    outputs, bias = weights.shape[1], _bias(bias, in_turns=in_turns)

    def matrix(expert: int) -> np.ndarray:
        return _halves(weights[expert]) if in_turns else weights[expert]

    if not pack or weights.dtype not in _PACKED or not weights.size:
        return LooseExperts(lambda expert: widened(matrix(expert)), outputs, bias)
    products: list[FloatProducts] = []
    for expert in range(len(weights)):
        packed = pack_floats([np.ascontiguousarray(matrix(expert))])
        products.append(FloatProducts(packed, products[0].calls if products else None))
    return PackedExperts(products, outputs, bias)


@dataclass(frozen=True, slots=True)
class ExpertBlocks:
    """Quantized weights of experts.

    Attributes:
        codes: uint8 ``[experts, outputs, inputs * bits / 8]``.
        scales: ``[experts, outputs, blocks]``, or ``[experts, outputs]`` without blocks.
        zeros: Zero points packed along the blocks, or without blocks along the outputs; None for the middle.
        bits: Of an element.
        block: Elements along the inputs that share a scale; 0 where all do.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    bits: int
    block: int

    def of(self, expert: int, *, in_turns: bool) -> BlockWeights:
        """The weights of one expert; with gates first where they take turns."""
        codes, scales = self.codes[expert], self.scales[expert].reshape(self.codes.shape[1], -1)
        depth = codes.shape[1] * 8 // self.bits
        zeros = None if self.zeros is None else self.zeros[expert]
        if zeros is not None and not self.block:
            by_output = unpack(zeros.reshape(1, -1), self.bits, len(codes)).reshape(-1, 1)
            # One block's zero point lies in the low bits of a byte, however wide it is.
            zeros = by_output
        if in_turns:
            codes, scales = _halves(codes), _halves(scales)
            zeros = None if zeros is None else _halves(zeros)
        return BlockWeights(codes, scales, zeros, depth, self.bits, self.block or depth)


def quantized_projection(
    blocks: ExpertBlocks, bias: np.ndarray | None, *, in_turns: bool, level: int | None
) -> Projection:
    """A projection of quantized weights.

    Args:
        blocks: The weights.
        bias: ``[experts, outputs]``, or None.
        in_turns: Gates and what they gate take turns among the outputs; the projection has all gates first.
        level: The accuracy level of packed products; None where packing is not worth it.
    """
    outputs, bias = blocks.codes.shape[1], _bias(bias, in_turns=in_turns)
    products: list[BlockProducts] = []
    if level is not None:
        for expert in range(len(blocks.codes)):
            arrangement = arranged(blocks.of(expert, in_turns=in_turns))
            if arrangement is None:
                break
            packed = pack_blocks([arrangement.matrix], words=needs_words(level))
            same = products and products[0].packed.form == packed.form
            products.append(BlockProducts(packed, products[0].calls if same else None))
    if products and len(products) == len(blocks.codes):
        return PackedExperts(products, outputs, bias, stack(products, bias))
    return LooseExperts(lambda expert: blocks.of(expert, in_turns=in_turns).dequantized(), outputs, bias)
