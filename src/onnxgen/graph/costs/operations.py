"""Arithmetic operations by operator family; a multiply-add counts as two.

Counts are those of the plain algorithm, whatever a kernel does. Exponentials and the like count as `TRANSCENDENTAL`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from onnxgen.graph.costs.node_facts import NodeFacts
from onnxgen.graph.costs.sizes import num_elements, whole_shape
from onnxgen.graph.ir.types import ValueType

Operations = Callable[[NodeFacts], int | None]

TRANSCENDENTAL = 10
"""What one exponential, logarithm, root, or trigonometric function counts as."""


def operations_of(node: NodeFacts) -> int | None:
    """Operations of a node: by its family's rule, else one for each element of its outputs; None if unknown."""
    rule = RULES.get(node.op_type)
    if rule is not None:
        return rule(node)
    return per_output(1)(node)


def per_output(count: int) -> Operations:
    """So many operations for each element of the outputs."""

    def operations(node: NodeFacts) -> int | None:
        counts = [num_elements(value) for value in node.outputs if value is not None]
        known = [number for number in counts if number is not None]
        return count * sum(known) if len(known) == len(counts) else None

    return operations


def per_input(count: int) -> Operations:
    """So many operations for each element of the first input."""

    def operations(node: NodeFacts) -> int | None:
        elements = num_elements(_at(node.inputs, 0))
        return None if elements is None else count * elements

    return operations


def _at(values: tuple[ValueType | None, ...], index: int) -> ValueType | None:
    return values[index] if index < len(values) else None


def _shape(node: NodeFacts, index: int) -> tuple[int, ...] | None:
    return whole_shape(_at(node.inputs, index))


def _result(node: NodeFacts) -> tuple[int, ...] | None:
    return whole_shape(_at(node.outputs, 0))


def _no_work(node: NodeFacts) -> int:
    del node
    return 0


def _matmul(a: int = 0) -> Operations:
    """Two operations for each output element and step of the sum, the last dimension of input ``a``."""

    def operations(node: NodeFacts) -> int | None:
        left, out = _shape(node, a), _result(node)
        if left is None or out is None or not left:
            return None
        depth = left[-2] if node.attributes.get("transA") and len(left) > 1 else left[len(left) - 1]
        return 2 * math.prod(out) * depth

    return operations


def _matmul_bits(node: NodeFacts) -> int | None:
    out, depth = _result(node), node.attributes.get("K")
    return None if out is None or depth is None else 2 * math.prod(out) * int(depth)


def _conv(weight: int = 1) -> Operations:
    """Two operations for each output element and weight of its filter."""

    def operations(node: NodeFacts) -> int | None:
        filters, out = _shape(node, weight), _result(node)
        return None if filters is None or out is None else 2 * math.prod(out) * math.prod(filters[1:])

    return operations


def _conv_transpose(node: NodeFacts) -> int | None:
    data, filters = _shape(node, 0), _shape(node, 1)
    return None if data is None or filters is None else 2 * math.prod(data) * math.prod(filters[1:])


def _pool(node: NodeFacts) -> int | None:
    out, window = _result(node), node.attributes.get("kernel_shape", ())
    return None if out is None else math.prod(out) * math.prod(window)


def _attention(node: NodeFacts) -> int | None:
    """Scores and weighted sum: ``2 * 2 * batch * seq * total * hidden``, with the softmax between."""
    query, heads = _shape(node, 0), _num_heads(node)
    if query is None or heads is None:
        return None
    if len(query) == 4:  # (batch, heads, seq, head_dim)
        batch, _, seq, head_dim = query
        hidden = heads * head_dim
    elif len(query) == 3:
        batch, seq, width = query
        hidden = _query_width(node, width, heads)
    else:
        return None
    total = _total_length(node, seq)
    return None if total is None else batch * seq * total * (4 * hidden + heads * (TRANSCENDENTAL + 3))


def _num_heads(node: NodeFacts) -> int | None:
    for name in ("num_heads", "q_num_heads"):
        if node.attributes.get(name):
            return int(node.attributes[name])
    query = _shape(node, 0)
    return query[1] if query is not None and len(query) == 4 else None


def _query_width(node: NodeFacts, width: int, heads: int) -> int:
    """Width of the query in a packed projection of query, key and value."""
    if _at(node.inputs, 1) is not None or "kv_num_heads" not in node.attributes:
        return width
    return width * heads // (heads + 2 * int(node.attributes["kv_num_heads"]))


def _total_length(node: NodeFacts, seq: int) -> int | None:
    """Keys that a query sees: of the key cache that comes out, else of the key, else the query's own length."""
    present = whole_shape(_at(node.outputs, 1))
    if present is not None and len(present) == 4:
        return present[2]
    if _at(node.outputs, 1) is not None:
        return None
    key = _shape(node, 1) if node.op_type != "QAttention" else None
    if key is not None and len(key) in (3, 4):
        return key[-2]
    return seq


def _projected_attention(node: NodeFacts) -> int | None:
    """Attention that begins with the projection to query, key and value."""
    data, weights = _shape(node, 0), _shape(node, 1)
    heads = _num_heads(node)
    if data is None or weights is None or heads is None or len(data) != 3 or len(weights) != 2:
        return None
    batch, seq, width = data
    hidden = weights[1] // 3
    return 2 * batch * seq * width * weights[1] + batch * seq * seq * (
        4 * hidden + heads * (TRANSCENDENTAL + 3)
    )


def _recurrent(gates: int) -> Operations:
    """Input and recurrent products of every step and direction."""

    def operations(node: NodeFacts) -> int | None:
        data, weights, again = _shape(node, 0), _shape(node, 1), _shape(node, 2)
        if data is None or weights is None or again is None or len(data) != 3:
            return None
        directions, hidden = len_directions(node), int(node.attributes.get("hidden_size", 0))
        width = gates * hidden
        per_step = 2 * width * (data[2] + hidden) + hidden * gates * TRANSCENDENTAL
        return data[0] * data[1] * directions * per_step

    return operations


def len_directions(node: NodeFacts) -> int:
    """1, or 2 for a bidirectional recurrent operator."""
    return 2 if node.attributes.get("direction") == "bidirectional" else 1


def _einsum(node: NodeFacts) -> int | None:
    """Two operations for each combination of all indices."""
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        shape = _shape(node, index)
        if shape is None or "." in term or len(term) != len(shape):
            return None
        for label, size in zip(term, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    return (2 if len(terms) > 1 else 1) * math.prod(sizes.values())


def _trees(node: NodeFacts) -> int | None:
    """A comparison for each level of each tree, a balanced tree assumed."""
    data = _shape(node, 0)
    ids = node.attributes.get("nodes_treeids", node.attributes.get("nodes_splits"))
    if data is None or ids is None or not data:
        return None
    trees = len(set(node.attributes.get("nodes_treeids", node.attributes.get("tree_roots", (0,)))))
    depth = max(1, math.ceil(math.log2(max(2, len(ids) / max(1, trees)))))
    return data[0] * trees * depth


def _fourier(node: NodeFacts) -> int | None:
    data = num_elements(_at(node.inputs, 0))
    return None if data is None else 5 * data * max(1, math.ceil(math.log2(max(2, data))))


_VIEWS = """Reshape Squeeze Unsqueeze Flatten Identity Shape Size Dropout Optional OptionalGetElement
    OptionalHasElement SequenceConstruct SequenceAt SequenceLength SequenceInsert SequenceErase SequenceEmpty
    Constant"""
_MOVES = """Transpose Concat Split Slice Gather GatherElements GatherND Scatter ScatterElements ScatterND Expand Tile Pad Cast
    CastLike DepthToSpace SpaceToDepth ConstantOfShape Range EyeLike ReverseSequence Compress Trilu TensorScatter
    ConcatFromSequence SplitToSequence RotaryEmbeddingCache"""
_TRANSCENDENTALS = """Exp Log Sqrt Sin Cos Tan Sinh Cosh Tanh Asin Acos Atan Asinh Acosh Atanh Erf Sigmoid Softplus Pow
    Elu Selu Celu Mish HardSwish QuickGelu Reciprocal Swish Silu"""
_REDUCTIONS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSum
    ReduceLogSumExp ArgMax ArgMin CumSum CumProd GlobalAveragePool GlobalMaxPool TopK NonZero Unique"""
_GELUS = "Gelu FastGelu BiasGelu BiasSplitGelu"
_NORMS = """LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization InstanceNormalization GroupNormalization GroupNorm MeanVarianceNormalization
    LpNormalization EmbedLayerNormalization"""

RULES: Mapping[str, Operations] = {
    **dict.fromkeys(_VIEWS.split(), _no_work),
    **dict.fromkeys(_MOVES.split(), _no_work),
    **dict.fromkeys(_TRANSCENDENTALS.split(), per_output(TRANSCENDENTAL)),
    **dict.fromkeys(_GELUS.split(), per_output(TRANSCENDENTAL + 4)),
    **dict.fromkeys(_REDUCTIONS.split(), per_input(1)),
    **dict.fromkeys(_NORMS.split(), per_input(8)),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), per_input(TRANSCENDENTAL + 3)),
    **dict.fromkeys(("MatMul", "Gemm", "MatMulInteger", "FusedMatMul", "FusedGemm", "DynamicQuantizeMatMul"), _matmul()),
    **dict.fromkeys(("QLinearMatMul", "MatMulIntegerToFloat", "GemmFloat8", "QGemm"), _matmul()),
    **dict.fromkeys(("MatMulNBits", "MatMulBnb4"), _matmul_bits),
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "NhwcConv", "NhwcFusedConv"), _conv()),
    "QLinearConv": _conv(3),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool", "QLinearAveragePool"), _pool),
    **dict.fromkeys(("GroupQueryAttention", "MultiHeadAttention", "PagedAttention"), _attention),
    "QAttention": _projected_attention,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "DynamicQuantizeLSTM": _recurrent(4),
    "Einsum": _einsum,
    "Resize": per_output(8),
    "BatchNormalization": per_output(2),
    "LRN": per_output(TRANSCENDENTAL),
    "RotaryEmbedding": per_output(3),
    "QuantizeLinear": per_output(3),
    "DequantizeLinear": per_output(2),
    "DynamicQuantizeLinear": per_input(5),
    **dict.fromkeys(("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"), _trees),
    **dict.fromkeys(("DFT", "STFT"), _fourier),
    "Attention": lambda node: _projected_attention(node) if node.domain else _attention(node),
}  # fmt: skip
