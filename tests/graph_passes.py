"""Passes on models written as ONNX text: what the graph is afterwards, and that it still computes the same."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx.reference import ReferenceEvaluator

from onnxgen.graph.ep.from_graph import constant_array
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.attributes import attribute_value
from onnxgen.graph.ir.types import TensorType, numpy_dtype
from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.shapes import infer_shapes

HEADER = '<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>\n'


def parse(text: str, opset: int = 21) -> ir.Model:
    """A graph (``g (float[N] x) => (float[N] y) { y = Relu(x) }``) as a model, with its shapes inferred."""
    model = ir.from_onnx_text(
        HEADER.format(opset=opset) + text if not text.lstrip().startswith("<") else text
    )
    infer_shapes(model)
    return model


def anything_runs(node: NodeSpec) -> bool:
    return True


def only(*op_types: str) -> Callable[[NodeSpec], bool]:
    """A session that runs these operators, and of contrib domains nothing else."""
    return lambda node: node.op_type in op_types or not node.domain


def reference(node: NodeSpec, arrays: list[Any]) -> list[Any]:
    """Runs a node by onnx's own reference implementation."""
    inputs = [f"i{n}" if array is not None else "" for n, array in enumerate(arrays)]
    outputs = [f"o{n}" for n in range(len(node.outputs))]
    made = onnx.helper.make_node(node.op_type, inputs, outputs, domain=node.domain)
    for name, value in node.attributes.items():
        if isinstance(value, np.ndarray):
            value = onnx.numpy_helper.from_array(value)
        made.attribute.append(onnx.helper.make_attribute(name, value))
    evaluator = ReferenceEvaluator(made, opsets={node.domain: node.opset})
    results = evaluator.run(None, {n: a for n, a in zip(inputs, arrays, strict=True) if n})
    return [r.astype(object) if isinstance(r, np.ndarray) and r.dtype.kind == "U" else r for r in results]


def apply(
    model: ir.Model, passes: Sequence[Pass] | Pass, can_run: Callable[[NodeSpec], bool] = anything_runs
) -> str:
    """Run passes, each once, and check after each that the model is legal; what they say they did."""
    did = []
    for each in [passes] if isinstance(passes, Pass) else passes:
        context = Context(model, can_run=can_run, evaluate=reference)
        did += [f"{count} {phrase}" for phrase, count in each.run(context).items()]
        check_integrity(model)
    return ", ".join(did)


def check_integrity(model: ir.Model) -> None:
    """Every use is known to its value, every value is computed before it is used, no name means two values."""
    names: dict[str, ir.Value] = {}
    for graph in model.graphs():
        for value in [*graph.inputs, *graph.initializers.values(), *(o for n in graph for o in n.outputs)]:
            if value.name:
                assert names.setdefault(value.name, value) is value, f"{value.name} names two values"
        for node in graph:
            for index, value in enumerate(node.inputs):
                if value is not None:
                    assert any(u.node is node and u.idx == index for u in value.uses()), (node, value)
            for output in node.outputs:
                for user, _ in output.uses():
                    assert user.graph is not None, f"{output.name} is used by a node that is nowhere: {user}"
        for output in graph.outputs:
            assert output.is_graph_output(), output
    # The checker refuses values of which inference knows nothing, and what only ONNX Runtime has in the standard's domain.
    known = all(value.type is not None and value.shape is not None for value in names.values())
    if known and not any(node.op_type == "SimplifiedLayerNormalization" for node in model.graph):
        onnx.checker.check_model(_proto(model))


def listing(model: ir.Model) -> list[str]:
    """The nodes in order, one line each: ``y = Gelu(x) {approximate=tanh}``; values inside are t0, t1, ...

    Constants stand for themselves (``[0, 2]``), large ones by type and shape (``float[3,4]``).
    """
    return _listing(model.graph, {})


def _listing(graph: ir.Graph, names: dict[ir.Value, str]) -> list[str]:
    for value in [*graph.inputs, *graph.outputs]:
        names[value] = value.name or ""
    lines = []
    for node in graph:
        for output in node.outputs:
            names.setdefault(
                output, f"t{sum(n.startswith('t') for n in names.values())}" if output.name else "_"
            )
        inputs = ", ".join("_" if v is None else names.get(v) or _constant(v) for v in node.inputs)
        attributes = {
            name: _listing(a.as_graph(), names) if a.type is ir.AttributeType.GRAPH else attribute_value(a)
            for name, a in sorted(node.attributes.items())
        }
        shown = ", ".join(f"{k}={_number(v)}" for k, v in attributes.items())
        outputs = ", ".join(names[o] for o in node.outputs)
        lines.append(f"{outputs} = {node.op_type}({inputs})" + (f" {{{shown}}}" if shown else ""))
    return lines


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _constant(value: ir.Value) -> str:
    array = constant_array(value)
    assert array is not None, value
    if array.size > 8:
        return f"{ir.DataType.from_numpy(array.dtype).name.lower()}{list(array.shape)}".replace(" ", "")
    return str(array.tolist())


def feeds_of(
    model: ir.Model, rng: np.random.Generator, sizes: Mapping[str, int] = {}
) -> dict[str, np.ndarray]:
    """Random inputs; symbols without a size given get one of their own from 1 to 5."""
    chosen: dict[str, int] = dict(sizes)
    feeds: dict[str, np.ndarray] = {}
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        shape = [
            d if isinstance(d, int) else chosen.setdefault(str(d.value), int(rng.integers(1, 6)))
            for d in (value.shape or ())
        ]
        feeds[value.name or ""] = _random(numpy_dtype(value.dtype or ir.DataType.FLOAT), shape, rng)
    return feeds


def _random(dtype: np.dtype, shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        return np.asarray(rng.integers(0, 7, shape), dtype)
    return np.asarray(rng.standard_normal(shape), dtype)


def run(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run by ONNX Runtime as the graph is."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        _proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run([o.name for o in model.graph.outputs], dict(feeds)))


def check(
    text: str,
    passes: Sequence[Pass] | Pass,
    expected: Sequence[str] | None,
    *,
    opset: int = 21,
    can_run: Callable[[NodeSpec], bool] = anything_runs,
    sizes: Mapping[str, int] = {},
    feeds: Mapping[str, np.ndarray] = {},
    tolerance: float = 1e-5,
) -> str:
    """The graph becomes ``expected`` (None: stays as it is), and computes the same from random inputs.

    Returns:
        What the passes say they did.
    """
    seed = secrets.randbits(32)
    model = parse(text, opset)
    signature = _signature(model)
    before_lines = listing(model)
    inputs = {**feeds_of(model, np.random.default_rng(seed), sizes), **feeds}
    before = run(model, inputs)
    did = apply(model, passes, can_run)
    assert listing(model) == (before_lines if expected is None else list(expected))
    assert bool(did) == (expected is not None), did
    assert _signature(model) == signature
    same(before, run(model, inputs), tolerance, f"seed {seed}")
    return did


def same(before: Sequence[Any], after: Sequence[Any], tolerance: float, message: str = "") -> None:
    """Integers, booleans and strings are equal; floats within a tolerance of the largest; types and shapes too."""
    for a, b in zip(before, after, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape, (a.dtype, b.dtype, a.shape, b.shape, message)
        if a.dtype.kind not in "fV":
            assert np.array_equal(a, b), message
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = a[np.isfinite(a)]
        scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
        np.testing.assert_allclose(
            b, a, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=message
        )


def _signature(model: ir.Model) -> list[tuple[str | None, str, str]]:
    return [(v.name, str(v.type), str(v.shape)) for v in [*model.graph.inputs, *model.graph.outputs]]


def _proto(model: ir.Model) -> onnx.ModelProto:
    return ir.to_proto(model)


def tensor(*shape: int | str | None, dtype: ir.DataType = ir.DataType.FLOAT) -> TensorType:
    """A type, for specs made by hand."""
    return TensorType(dtype, shape)
