"""Fast forms of quantized matrices that must be multiplied in floating point.

ONNX Runtime's CPU kernel of ``MatMulNBits`` has a fast path for blocks around their middle only: 4 bits with
float or int8 activations, 8 bits with int8 activations. Anything else is dequantized whole at every call, 10
to 20 times slower. Two identities bring the rest onto the fast path (s scale, c code, z zero point, x input):

Zero points in floating point, 4 bits. The sum over a block splits into the symmetric product and a product of
block sums, whose matrix is 32 times smaller and constant::

    sum (c - z) s x  =  sum (c - 8) s x  +  (8 - z) s (sum x)

8 bits with float activations (accuracy level 0 or 1). The kernel rounds activations to int8 per block, so it
is given them in two rows, the rounded values and what rounding left over, whose own rounding error is at
most 2**-15 of the block's largest value::

    W x  =  W high + W low        high = 127 steps of max |x| / 127,  low = x - high
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxgen.backends.ort.graph_edit import gqa
from onnxgen.backends.ort.graph_edit.surgery import replace_output
from onnxgen.backends.ort.graph_edit.tokenwise import MICROSOFT

_X, _CODES, _SCALES, _ZERO_POINTS, _GROUP_INDEX, _BIAS = range(6)
_FLOAT_LEVELS = (0, 1)


def speed_up_float_blocks(graph: ir.Graph) -> int:
    """Rewrite the matrices that the kernel would dequantize at every call.

    Inputs must be laid out ``[batch, seq, K]``; matrices for which that is not known stay as they are.

    Returns:
        The number of matrices that were rewritten.
    """
    rewriter = _Rewriter(graph)
    count = 0
    for node in [n for n in graph if n.op_type == "MatMulNBits" and n.domain == MICROSOFT]:
        if not _is_plain(node):
            continue
        if _has_float_zero_points(node):
            rewriter.split_off_zero_points(node)
        elif _rounds_what_must_not_be_rounded(node):
            rewriter.multiply_two_rows(node)
        else:
            continue
        count += 1
    return count


def _is_plain(node: ir.Node) -> bool:
    x, scales = node.inputs[_X], node.inputs[_SCALES]
    return (
        x is not None
        and scales is not None
        and scales.dtype == ir.DataType.FLOAT
        and gqa.node_input(node, _GROUP_INDEX) is None
        and gqa.int_attribute(node, "K") % gqa.int_attribute(node, "block_size") == 0
        and _is_batch_of_rows(x)
    )


def _is_batch_of_rows(x: ir.Value) -> bool:
    producer = x.producer()
    selected = producer is not None and producer.op_type == "GatherND"  # wanted rows, [1, rows, K]
    return selected or (x.shape is not None and len(x.shape) == 3)


def _has_float_zero_points(node: ir.Node) -> bool:
    points = gqa.node_input(node, _ZERO_POINTS)
    return points is not None and points.dtype == ir.DataType.FLOAT and gqa.int_attribute(node, "bits") == 4


def _rounds_what_must_not_be_rounded(node: ir.Node) -> bool:
    return gqa.int_attribute(node, "bits") == 8 and gqa.int_attribute(node, "accuracy_level") in _FLOAT_LEVELS


@dataclass(slots=True)
class _Rewriter:
    graph: ir.Graph
    # by input and block size, since several matrices share an input
    block_sums: dict[tuple[ir.Value, int], ir.Value] = field(
        default_factory=dict[tuple[ir.Value, int], ir.Value]
    )
    two_rows: dict[tuple[ir.Value, int], ir.Value] = field(
        default_factory=dict[tuple[ir.Value, int], ir.Value]
    )
    constants: dict[str, ir.Value] = field(default_factory=dict[str, ir.Value])

    def split_off_zero_points(self, node: ir.Node) -> None:
        """``product`` = symmetric product + block sums times a constant matrix."""
        x, scales, points = node.inputs[_X], node.inputs[_SCALES], node.inputs[_ZERO_POINTS]
        assert x is not None and scales is not None and points is not None
        product = node.outputs[0]
        users = [(n, at) for n, at in product.uses()]
        out_features = gqa.int_attribute(node, "N")
        blocks = gqa.int_attribute(node, "K") // gqa.int_attribute(node, "block_size")
        grid = self._integers("grid", [out_features, blocks])
        # all of it is constant: ONNX Runtime computes it once, when the session is made
        flat = [self._before(node, "Reshape", [value, grid]) for value in (points, scales)]
        centred = self._before(node, "Sub", [self._number("middle", 8.0), flat[0]])
        scaled = self._before(node, "Mul", [centred, flat[1]])
        matrix = self._before(node, "Transpose", [scaled], perm=[1, 0])  # [blocks, N]
        correction = self._before(node, "MatMul", [self._sums(node, x), matrix])
        node.replace_input_with(_ZERO_POINTS, None)
        self._hand_over(product, users, self._after(node, "Add", [product, correction]))

    def multiply_two_rows(self, node: ir.Node) -> None:
        """``product`` = product of the rounded input + product of what rounding left over."""
        x = node.inputs[_X]
        assert x is not None
        product = node.outputs[0]
        users = [(n, at) for n, at in product.uses()]
        bias = gqa.node_input(node, _BIAS)
        node.replace_input_with(_X, self._high_and_low(node, x))  # [2, batch, seq, K]
        node.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", 4)
        if bias is not None:
            node.replace_input_with(_BIAS, None)
        result = self._after(node, "ReduceSum", [product, self._integers("first", [0])], keepdims=0)
        if bias is not None:
            total = result.producer()
            assert total is not None
            result = self._after(total, "Add", [result, bias])
        self._hand_over(product, users, result)

    def _sums(self, node: ir.Node, x: ir.Value) -> ir.Value:
        """Sums of ``x`` over blocks, ``[batch, seq, K / block_size]``."""
        size, width = gqa.int_attribute(node, "block_size"), gqa.int_attribute(node, "K")
        if (x, size) not in self.block_sums:
            by_block = self._before(
                node, "Reshape", [x, self._integers("blocks", [0, 0, width // size, size])]
            )
            sums = self._before(node, "ReduceSum", [by_block, self._integers("last", [-1])], keepdims=0)
            self.block_sums[x, size] = sums
        return self.block_sums[x, size]

    def _high_and_low(self, node: ir.Node, x: ir.Value) -> ir.Value:
        """``x`` rounded as the kernel rounds it, and the rest, ``[2, batch, seq, K]``."""
        size, width = gqa.int_attribute(node, "block_size"), gqa.int_attribute(node, "K")
        if (x, size) in self.two_rows:
            return self.two_rows[x, size]
        by_block = self._before(node, "Reshape", [x, self._integers("blocks", [0, 0, width // size, size])])
        magnitudes = self._before(node, "Abs", [by_block])
        largest = self._before(node, "ReduceMax", [magnitudes, self._integers("last", [-1])], keepdims=1)
        step = self._before(node, "Mul", [largest, self._number("step", 1 / 127)])
        # a block of zeros must not be divided by zero
        safe = self._before(node, "Max", [step, self._number("tiny", 1e-30)])
        steps = self._before(node, "Round", [self._before(node, "Div", [by_block, safe])])
        high = self._before(node, "Mul", [steps, safe])
        low = self._before(node, "Sub", [by_block, high])
        front = self._integers("first", [0])
        pair = [self._before(node, "Unsqueeze", [part, front]) for part in (high, low)]
        both = self._before(node, "Concat", pair, axis=0)  # [2, batch, seq, blocks, block_size]
        self.two_rows[x, size] = self._before(
            node, "Reshape", [both, self._integers("rows", [0, 0, 0, width])]
        )
        return self.two_rows[x, size]

    def _before(
        self, node: ir.Node, op_type: str, inputs: list[ir.Value], **attributes: int | list[int]
    ) -> ir.Value:
        made = _node(op_type, inputs, attributes)
        self.graph.insert_before(node, made)
        return made.outputs[0]

    def _after(self, node: ir.Node, op_type: str, inputs: list[ir.Value], **attributes: int) -> ir.Value:
        made = _node(op_type, inputs, attributes)
        self.graph.insert_after(node, made)
        return made.outputs[0]

    def _hand_over(self, product: ir.Value, users: list[tuple[ir.Node, int]], result: ir.Value) -> None:
        """Let what used the product use the result instead."""
        result.shape = product.shape
        for user, index in users:
            user.replace_input_with(index, result)
        if product.is_graph_output():
            replace_output(self.graph, product, result)

    def _integers(self, name: str, values: list[int]) -> ir.Value:
        return self._constant(f"onnxgen.{name}.{'.'.join(map(str, values))}", np.array(values, np.int64))

    def _number(self, name: str, value: float) -> ir.Value:
        return self._constant(f"onnxgen.{name}", np.array(value, np.float32))

    def _constant(self, name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> ir.Value:
        if name not in self.constants:
            value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
            value.type = ir.TensorType(ir.DataType.from_numpy(array.dtype))
            value.shape = ir.Shape(array.shape)
            self.graph.register_initializer(value)
            self.constants[name] = value
        return self.constants[name]


def _node(op_type: str, inputs: list[ir.Value], attributes: Mapping[str, int | list[int]]) -> ir.Node:
    made = ir.node(op_type, inputs, dict(attributes) or None)
    made.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    return made
