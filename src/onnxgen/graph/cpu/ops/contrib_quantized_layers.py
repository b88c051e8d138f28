"""Whole layers of ``com.microsoft`` with quantized weights: ``QGemm``, attention, embeddings, LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.graph.cpu.integer_products import integer_matmul, peak, shifted
from onnxgen.graph.cpu.ops.contrib_attention import attention
from onnxgen.graph.cpu.ops.contrib_norms import embed_layer_normalization
from onnxgen.graph.cpu.ops.rnn import Project, lstm_runner
from onnxgen.graph.cpu.quantization import dequantize, dynamic_parameters, quantize, requantize
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("QGemm", 1, domain=MICROSOFT)
def qgemm(node: NodeSpec) -> Kernel:
    """``alpha * a' @ b' + c`` of quantized tensors; float32 where the node gives no output scale."""
    alpha = np.float32(node.attr("alpha", 1.0))
    trans_a, trans_b = bool(node.attr("transA", 0)), bool(node.attr("transB", 0))

    def run(
        a: np.ndarray,
        a_scale: np.ndarray,
        a_zero_point: np.ndarray,
        b: np.ndarray,
        b_scale: np.ndarray,
        b_zero_point: np.ndarray,
        c: np.ndarray | None = None,
        y_scale: np.ndarray | None = None,
        y_zero_point: np.ndarray | None = None,
    ) -> np.ndarray:
        left, right = a.T if trans_a else a, b.T if trans_b else b
        sums = integer_matmul(
            shifted(left, a_zero_point.reshape(())),
            shifted(right, b_zero_point),
            a_peak=peak(a.dtype, a_zero_point),
            b_peak=peak(b.dtype, b_zero_point),
        )
        if c is not None:
            sums = sums + c
        scale = alpha * a_scale.reshape(()) * b_scale
        if y_scale is None or y_zero_point is None:
            return (sums * scale).astype(np.float32)
        return requantize(
            sums.astype(np.float32), scale / y_scale.reshape(()), y_zero_point.reshape(()), y_zero_point.dtype
        )

    return Kernel(run)


@TABLE.operator("QAttention", 1, domain=MICROSOFT)
def qattention(node: NodeSpec) -> Kernel:
    """``Attention`` on a quantized input and quantized weights, which are dequantized."""
    attend = attention(node).run

    def run(
        x: np.ndarray,
        weights: np.ndarray,
        bias: np.ndarray,
        x_scale: np.ndarray,
        weight_scale: np.ndarray,
        mask: np.ndarray | None = None,
        x_zero_point: np.ndarray | None = None,
        weight_zero_point: np.ndarray | None = None,
        past: np.ndarray | None = None,
    ) -> Any:
        return attend(
            dequantize(x, x_scale, x_zero_point),
            dequantize(weights, weight_scale, weight_zero_point),
            bias,
            mask,
            past,
        )

    return Kernel(run)


@TABLE.operator("QEmbedLayerNormalization", 1, domain=MICROSOFT)
def qembed_layer_normalization(node: NodeSpec) -> Kernel:
    """``EmbedLayerNormalization`` with quantized tables and weights, which are dequantized."""
    embed = embed_layer_normalization(node).run

    def run(
        ids: np.ndarray,
        segments: np.ndarray | None,
        words: np.ndarray,
        positions: np.ndarray,
        segment_table: np.ndarray | None,
        gamma: np.ndarray,
        beta: np.ndarray,
        mask: np.ndarray | None,
        *parameters: np.ndarray | None,
    ) -> Any:
        tables = (words, positions, segment_table, gamma, beta)
        scales, zeros = parameters[:5], parameters[5:]
        reals = [
            None if table is None or scale is None else dequantize(table, scale, zero)
            for table, scale, zero in zip(tables, scales, zeros, strict=True)
        ]
        return embed(ids, segments, *reals, mask)

    return Kernel(run)


@TABLE.operator("DynamicQuantizeLSTM", 1, domain=MICROSOFT)
def dynamic_quantize_lstm(node: NodeSpec) -> Kernel:
    """``LSTM`` whose weights ``[directions, features, 4 * hidden]`` are quantized, and whose inputs are at each product."""
    run_lstm = lstm_runner(node)

    def run(
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        b: np.ndarray | None,
        lengths: np.ndarray | None,
        initial_h: np.ndarray | None,
        initial_c: np.ndarray | None,
        peepholes: np.ndarray | None,
        w_scale: np.ndarray,
        w_zero_point: np.ndarray,
        r_scale: np.ndarray,
        r_zero_point: np.ndarray,
    ) -> Any:
        biases = None if b is None else b.reshape(len(r), 2, -1).sum(1)
        weights = (
            [
                _dynamic_projection(w[d], w_scale[d], w_zero_point[d], None if biases is None else biases[d])
                for d in range(len(w))
            ],
            [_dynamic_projection(r[d], r_scale[d], r_zero_point[d], None) for d in range(len(r))],
            r.shape[1],
        )
        return run_lstm(x, weights, lengths, (initial_h, initial_c), peepholes)

    return Kernel(run)


def _dynamic_projection(
    w: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, bias: np.ndarray | None
) -> Project:
    zeros = np.asarray(zero_point)
    right, right_peak = shifted(w, zeros), peak(w.dtype, zeros)

    def project(x: np.ndarray) -> np.ndarray:
        x_scale, x_zero = dynamic_parameters(x)
        left = shifted(quantize(x, x_scale, x_zero, np.dtype(np.uint8)), x_zero)
        y = integer_matmul(left, right, a_peak=255, b_peak=right_peak).astype(np.float32) * (x_scale * scale)
        return y if bias is None else y + bias

    return project
