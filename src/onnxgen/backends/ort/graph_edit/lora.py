"""Let a graph add what adapters say: inputs for the two matrices of each linear layer, or those it was made with.

    x ──┬── MatMul(N Bits) ─────────────── Add ── y        A [in_features, rank], B [rank, out_features]
        └── MatMul(A) ── MatMul(B) ──────────┘

While a graph is rewritten the matrices are initializers, so that every rewrite takes them for the constants that they
are within a call; they become inputs when all is done (`open_inputs`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx_ir as ir

from onnxgen.backends.lora_places import Linear, spot_of_node
from onnxgen.backends.ort.graph_edit import gqa
from onnxgen.backends.ort.graph_edit.names import LORA_A, LORA_B
from onnxgen.backends.ort.graph_edit.surgery import constant_values, replace_output
from onnxgen.backends.ort.ports import AdapterPort

_PRODUCTS = frozenset({"MatMul", "MatMulNBits", "FusedMatMul", "Gemm"})
_MADE_FOR_ADAPTERS = "lora"
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def settle_inputs(graph: ir.Graph, known: Collection[str]) -> tuple[str, ...]:
    """Make initializers of inputs that were made for adapters; returns their names.

    Such are floats with a default, and floats that have ``lora`` in their names: without an adapter these are zeros.

    Args:
        graph: The graph.
        known: Names of inputs that have a role of their own.
    """
    names: list[str] = []
    for value in list(graph.inputs):
        name = str(value.name)
        if name in known or value.dtype is None or value.dtype not in _FLOATS:
            continue
        if name not in graph.initializers:
            if _MADE_FOR_ADAPTERS not in name.lower() or value.shape is None:
                continue
            dims = [dim if isinstance(dim, int) else 1 for dim in value.shape]
            value.const_value = ir.tensor(np.zeros(dims, value.dtype.numpy()), name=name)
            graph.inputs.remove(value)
            graph.register_initializer(value)
        else:
            graph.inputs.remove(value)
        names.append(name)
    return tuple(names)


def linears_of(graph: ir.Graph) -> list[Linear]:
    """Products with constant matrices whose names say which linear layer they are."""
    constants = constant_values(graph)
    heads = {
        spot[0]: (gqa.int_attribute(node, "num_heads"), gqa.int_attribute(node, "kv_num_heads"))
        for node in gqa.attention_nodes(graph)
        if (spot := spot_of_node(str(node.name))) is not None
    }
    linears: list[Linear] = []
    for node in graph:
        sizes = _sizes(node, constants)
        spot = spot_of_node(str(node.name))
        if sizes is not None and spot is not None:
            linears.append(Linear(str(node.name), *sizes, heads=heads.get(spot[0])))
    return linears


def add_pairs(graph: ir.Graph, nodes: Collection[str]) -> tuple[str, ...]:
    """Add what the two matrices say to the results of some products; returns the names of the matrices."""
    names: list[str] = []
    constants = constant_values(graph)
    for node in list(graph):
        if node.name not in nodes:
            continue
        x, sizes = node.inputs[0], _sizes(node, constants)
        assert x is not None and sizes is not None
        names += _add_pair(graph, node, x, *sizes)
    return tuple(names)


def open_inputs(graph: ir.Graph, names: Sequence[str]) -> tuple[AdapterPort, ...]:
    """Make inputs of initializers; of the matrices of products, the rank is open."""
    return tuple(_open(graph, name) for name in names)


def _open(graph: ir.Graph, name: str) -> AdapterPort:
    value = graph.initializers.pop(name)
    assert value.const_value is not None and value.dtype is not None
    dims: list[int | None] = [int(dim) for dim in value.const_value.shape]  # type: ignore[arg-type]
    if name.startswith(LORA_A):
        dims[1] = None
    elif name.startswith(LORA_B):
        dims[0] = None
    value.const_value = None
    rank = f"rank.{name.removeprefix(LORA_A).removeprefix(LORA_B)}"  # the same of both matrices
    value.shape = ir.Shape([rank if dim is None else dim for dim in dims])
    graph.inputs.append(value)
    return AdapterPort(name, value.dtype.numpy().name, value.dtype.value, tuple(dims))


def _add_pair(graph: ir.Graph, node: ir.Node, x: ir.Value, columns: int, rows: int) -> list[str]:
    y = node.outputs[0]
    kind = _element_type(node)
    users = list(y.uses())
    dtype = kind.numpy()
    a = _matrix(graph, f"{LORA_A}{node.name}", np.zeros((columns, 1), dtype))
    b = _matrix(graph, f"{LORA_B}{node.name}", np.zeros((1, rows), dtype))
    low = ir.node("MatMul", [x, a], name=f"onnxgen.lora.{node.name}.a")
    high = ir.node("MatMul", [low.outputs[0], b], name=f"onnxgen.lora.{node.name}.b")
    total = ir.node("Add", [y, high.outputs[0]], name=f"onnxgen.lora.{node.name}")
    for made in (low, high, total):
        made.outputs[0].name = f"{made.name}.output"
        made.outputs[0].type = ir.TensorType(kind)
    if y.shape is not None:
        total.outputs[0].shape = high.outputs[0].shape = y.shape
    graph.insert_after(node, [low, high, total])
    for user, index in users:
        user.replace_input_with(index, total.outputs[0])
    if y.is_graph_output():
        replace_output(graph, y, total.outputs[0])
    return [str(a.name), str(b.name)]


def _matrix(
    graph: ir.Graph, name: str, content: np.ndarray[tuple[int, int], np.dtype[np.generic]]
) -> ir.Value:
    value = ir.Value(name=name, const_value=ir.tensor(content, name=name))
    value.type = ir.TensorType(ir.DataType.from_numpy(content.dtype))
    value.shape = ir.Shape(content.shape)
    graph.register_initializer(value)
    return value


def _element_type(node: ir.Node) -> ir.DataType:
    """Of a product's result: said, or that of its input, or of the scales of its blocks."""
    scales = node.inputs[2] if node.op_type == "MatMulNBits" else node.inputs[1]
    for value in (node.outputs[0], node.inputs[0], scales):
        if value is not None and value.dtype is not None:
            return value.dtype
    return ir.DataType.FLOAT


def _sizes(node: ir.Node, constants: set[ir.Value]) -> tuple[int, int] | None:
    """Input and output features of a product with a constant matrix; None for everything else."""
    if node.op_type not in _PRODUCTS or len(node.inputs) < 2:
        return None
    x, matrix = node.inputs[0], node.inputs[1]
    if x is None or x in constants or matrix is None or matrix not in constants:
        return None
    if node.op_type == "MatMulNBits":
        return gqa.int_attribute(node, "K"), gqa.int_attribute(node, "N")
    shape = _stored(matrix).shape
    if shape is None or len(shape) != 2 or not all(isinstance(dim, int) for dim in shape):
        return None
    if gqa.int_attribute(node, "transA"):
        return None
    rows, columns = int(shape[0]), int(shape[1])  # type: ignore[arg-type]
    return (columns, rows) if gqa.int_attribute(node, "transB") else (rows, columns)


def _stored(matrix: ir.Value) -> ir.Value:
    """The matrix as it is stored, before it is widened."""
    node = matrix.producer()
    while node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        matrix = node.inputs[0]
        node = matrix.producer()
    return matrix
