"""Execution providers and nodes for the contract that all of them keep."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx_ir as ir

from kernel_runs import node_spec, type_of
from mirror import MirrorProvider
from onnxgen.conformance.cases import load_cases
from onnxgen.conformance.exclusions import why_not_compared
from onnxgen.graph.ep.from_graph import node_spec as spec_of_node
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import OptionalType, SequenceType, TensorType, numpy_dtype
from onnxgen.graph.loader import load_graph
from onnxgen.graph.plugin import load_provider
from onnxgen.graph.shapes import infer_shapes

PROVIDERS = {
    "cpu": lambda: load_provider("cpu"),
    "reference": lambda: load_provider("reference"),
    "ort": lambda: load_provider("ort"),
    "mirror": MirrorProvider,
}
"""How to make each provider that the contract is checked for. Add yours."""

NOT_FOR_PROVIDERS = ("Constant", "If", "Loop", "Scan")
"""Sessions run these themselves."""


@dataclass(frozen=True)
class NodeCase:
    """A node with inputs, and what the outputs look like; the values only where they are determined."""

    name: str
    node: NodeSpec
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    determined: bool


def own_cases():
    """Nodes of sizes that the standard's tests lack."""
    random = np.random.default_rng()
    cases = []
    for dtype in (np.float32, np.float64, np.int64):
        for shape in ((), (0,), (1,), (7,), (2, 0, 3), (3, 1, 5)):
            x, z = (np.asarray(random.standard_normal(shape) * 5).astype(dtype) for _ in range(2))
            for op, inputs, y in (
                ("Neg", (x,), -x), ("Abs", (x,), abs(x)), ("Relu", (x,), np.maximum(x, 0)),
                ("Add", (x, z), x + z), ("Sub", (x, z), x - z), ("Mul", (x, z), x * z), ("Identity", (x,), x),
            ):  # fmt: skip
                cases.append(_own(f"{op} {np.dtype(dtype)}{list(shape)}", op, inputs, y))
    wide = random.standard_normal((4, 6)).astype(np.float32)
    cases.append(_own("Add of a column and a row", "Add", (wide[:, :1], wide[:1]), wide[:, :1] + wide[:1]))
    cases.append(
        _own("Sub of strided inputs", "Sub", (wide[::2, ::-1], wide[1::2]), wide[::2, ::-1] - wide[1::2])
    )
    cases.append(_own("MatMul", "MatMul", (wide, wide.T), wide @ wide.T))
    return cases


def _own(name, op, inputs, y):
    y = np.asarray(y)
    node = node_spec(op, *inputs, opset=17, output_types=[type_of(y).dtype])
    return NodeCase(name, node, inputs, (y,), True)


@cache
def node_tests():
    """The standard's tests that are one node."""
    return tuple(
        case for case in load_cases("node")
        if len(case.model.graph.node) == 1 and not case.model.graph.initializer
        and case.model.graph.node[0].op_type not in NOT_FOR_PROVIDERS
    )  # fmt: skip


def sampled_cases(random, count):
    """Some of `node_tests`, as a session would tell providers of them."""
    tests = node_tests()
    return [_of_test(tests[index]) for index in random.choice(len(tests), count, replace=False)]


def _of_test(test):
    model = load_graph(test.model).model
    infer_shapes(model)
    (node,) = model.graph
    data, outputs = test.data_sets[0]
    feeds = dict(zip(test.input_names, data, strict=True))
    inputs = tuple(None if value is None else feeds[value.name] for value in node.inputs)
    results = dict(zip((value.name for value in model.graph.outputs), outputs, strict=True))
    return NodeCase(
        test.name,
        spec_of_node(node, model.graph.opset_imports),
        inputs,
        tuple(results.get(value.name) for value in node.outputs),
        why_not_compared(test.name, test.model) is None,
    )


ELEMENTS = [dtype for dtype in ir.DataType if dtype is not ir.DataType.UNDEFINED]


def random_node(random):
    """A node of any operator: its attributes are of the right kinds, all else is left to chance."""
    known = _schemas()[random.integers(len(_schemas()))]
    opset = known.since_version
    least, most = known.min_input, min(known.max_input, known.min_input + 4)
    inputs = [_random_type(random) for _ in range(random.integers(least, most + 1))]
    constants = {
        index: np.zeros(
            [3 if dim is None or isinstance(dim, str) else dim for dim in kind.shape or ()],
            numpy_dtype(kind.dtype),
        )
        for index, kind in enumerate(inputs)
        if isinstance(kind, TensorType)
        and kind.dtype in (ir.DataType.INT64, ir.DataType.FLOAT)
        and random.random() < 0.3
    }
    wanted = random.integers(1, max(2, min(known.max_output, 5) + 1))
    domain = known.domain if random.random() < 0.9 else "com.example"
    return NodeSpec(
        domain,
        known.name,
        opset,
        known.since_version if domain == known.domain else 1,
        {
            name: _random_attribute(random, attribute)
            for name, attribute in known.attributes.items()
            if attribute.type in _ATTRIBUTES and (attribute.required or random.random() < 0.5)
        },
        tuple(inputs),
        tuple(None if random.random() < 0.1 else _random_type(random) for _ in range(wanted)),
        constants,
        name="random",
    )


@cache
def _schemas():
    return tuple(
        item for item in onnx.defs.get_all_schemas_with_history()
        if all(attribute.type in _ATTRIBUTES or not attribute.required for attribute in item.attributes.values())
    )  # fmt: skip


def _random_type(random):
    if random.random() < 0.1:
        return None
    dtype = ir.DataType.UNDEFINED if random.random() < 0.1 else ELEMENTS[random.integers(len(ELEMENTS))]
    if random.random() < 0.5:
        dtype = ir.DataType.FLOAT
    dims = [2, 3, 0, 1, "N", "N + 1", None]
    shape = (
        None
        if random.random() < 0.2
        else tuple(dims[i] for i in random.integers(len(dims), size=random.integers(6)))
    )
    tensor = TensorType(dtype, shape)
    return [SequenceType(tensor), OptionalType(tensor), tensor][min(int(random.integers(20)), 2)]


_KIND = onnx.defs.OpSchema.AttrType
_ATTRIBUTES = {
    _KIND.INT: lambda random: int(random.integers(-2, 5)),
    _KIND.FLOAT: lambda random: float(random.standard_normal()),
    _KIND.STRING: lambda random: str(
        random.choice(["", "NOTSET", "SAME_UPPER", "linear", "ij,jk->ik", "nonsense"])
    ),
    _KIND.INTS: lambda random: tuple(random.integers(-1, 4, size=random.integers(5)).tolist()),
    _KIND.FLOATS: lambda random: tuple(random.standard_normal(random.integers(4)).tolist()),
    _KIND.STRINGS: lambda random: ("Tanh", "Relu")[: random.integers(3)],
    _KIND.TENSOR: lambda random: np.zeros(
        tuple(random.integers(0, 3, size=random.integers(1, 3))), np.float32
    ),
}


def _random_attribute(random, attribute):
    return _ATTRIBUTES[attribute.type](random)
