"""How the matrices of an ONNX graph are stored, read from the graph without its weights."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxgen.builder.formats import ZeroPoints, block_format
from onnxgen.cli.facts import Facts

if TYPE_CHECKING:
    import onnx_ir as ir

_LAYER = re.compile(r"(?:^|[./])(?:layers?|h|blocks?)[./](\d+)[./](.+)$")
_TAIL = re.compile(r"([._/](weights?|MatMul\w*|qweight|quant\w*|Q\d+|scales?|flat))+$", re.IGNORECASE)
# operators between a stored matrix and the product that uses it
_CARRIERS = frozenset({"Cast", "Transpose", "DequantizeLinear", "Reshape", "Identity"})


def graph_facts(path: Path) -> Facts:
    """Opset, size and storage of an ONNX file.

    Returns:
        ``matrices`` maps each kind of matrix, with layer numbers left out, to its formats and their number.
    """
    import onnx_ir as ir

    return _graph_facts(ir.load(path), path)


def onnx_file_facts(path: Path) -> Facts:
    """What `graph_facts` says, with the inputs and outputs that the file declares.

    Raises:
        ModelFileError: The file is no ONNX model.
    """
    from onnxgen.graph.loader import load_graph

    model = load_graph(path).model
    return {
        "kind": "ONNX file",
        "path": str(path.resolve()),
        "size_bytes": path.stat().st_size,
        **_graph_facts(model, path),
        "inputs": {value.name: _declared(value) for value in model.graph.inputs},
        "outputs": {value.name: _declared(value) for value in model.graph.outputs},
    }


def _declared(value: ir.Value) -> str:
    from onnxgen.graph.ep.from_graph import type_of

    kind = str(type_of(value))
    return kind if value.shape is None else f"{kind} [{', '.join(str(dim) for dim in value.shape)}]"


def _graph_facts(model: ir.Model, path: Path) -> Facts:
    formats: dict[str, Counter[str]] = {}
    for node in model.graph:
        found = _stored_matrix(node)
        if found:
            name, how = found
            formats.setdefault(_kind(name), Counter())[how] += 1
    return {
        "file": path.name,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opset_imports.items()},
        "ir_version": model.ir_version,
        "nodes": len(model.graph),
        "matrices": {
            kind: ", ".join(f"{count} x {how}" for how, count in counts.most_common())
            for kind, counts in formats.items()
        },
    }


def _kind(name: str) -> str:
    match = _LAYER.search(name)
    return _TAIL.sub("", match[2] if match else name).replace("/", ".").strip(".")


def _stored_matrix(node: ir.Node) -> tuple[str, str] | None:
    """Name and format of the constant matrix that a node multiplies with or looks up in."""
    if node.op_type in ("MatMulNBits", "GatherBlockQuantized"):
        at = 1 if node.op_type == "MatMulNBits" else 0
        weight = node.inputs[at]
        return (weight.name or "", _block_format(node)) if weight is not None else None
    at = {"MatMul": 1, "Gemm": 1, "Gather": 0}.get(node.op_type)
    if at is None or len(node.inputs) <= at:
        return None
    weight = _constant(node.inputs[at])
    if weight is None or weight.dtype is None or weight.shape is None or len(weight.shape) != 2:
        return None
    return weight.name or "", weight.dtype.name.lower()


def _constant(value: ir.Value | None) -> ir.Value | None:
    while value is not None and not value.is_initializer():
        producer = value.producer()
        if producer is None or producer.op_type not in _CARRIERS:
            return None
        value = producer.inputs[0]
    return value


def _block_format(node: ir.Node) -> str:
    bits, block = _integer(node, "bits", 4), _integer(node, "block_size", 0)
    zero_points = node.inputs[3] if len(node.inputs) > 3 else None
    if zero_points is None:
        kind = ZeroPoints.SYMMETRIC
    elif zero_points.dtype is not None and zero_points.dtype.is_floating_point():
        kind = ZeroPoints.FLOAT
    else:
        kind = ZeroPoints.INTEGER
    level = _integer(node, "accuracy_level", 0)
    return block_format(bits, block, kind) + (f" (accuracy level {level})" if level else "")


def _integer(node: ir.Node, name: str, default: int) -> int:
    attribute: Any = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()
