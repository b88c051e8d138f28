"""ONNX Runtime as an execution provider of last resort: single nodes, each in a session of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state  # pyright: ignore[reportAttributeAccessIssue]

from onnxgen.foundations.recent import Recent
from onnxgen.graph.ep import host
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, Decline
from onnxgen.graph.ir.schemas import schema
from onnxgen.graph.ir.types import SequenceType, TensorType, ValueType, is_ml_dtype, numpy_dtype

_KEPT_SESSIONS = 32


class OrtNodeProvider:
    """Runs what ONNX Runtime's CPU provider has a kernel for. Only sessions that name it, ``ort``, use it.

    Constants of a node become initializers of its session, which copies them. Nodes with graphs, optional values, and
    element types that ONNX Runtime's Python interface has no arrays for are declined.
    """

    name = "ort"
    device = HOST
    allocate = staticmethod(host.allocate)
    to_device = staticmethod(host.to_device)
    to_host = staticmethod(host.to_host)
    synchronize = staticmethod(host.synchronize)

    def __init__(self) -> None:
        self._sessions = Recent[bytes, Any](_KEPT_SESSIONS)
        self._lock = Lock()

    def claim(self, node: NodeSpec) -> Claim | Decline:
        """Claim the node if ONNX Runtime makes a session of it."""
        reason = _why_not(node)
        if reason is not None:
            return Decline(reason)
        try:
            self._session(node)
        except Exception as error:  # noqa: BLE001 - ONNX Runtime's errors have no common base
            return Decline(f"ONNX Runtime refuses it: {' '.join(str(error).split()).rstrip(' .')}")
        return Claim("session")

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        """Make a kernel that runs the node's session."""
        session = self._session(node)
        fed = [
            (index, name)
            for index, name in enumerate(_input_names(node))
            if name and index not in node.constants
        ]
        wanted = [name for name in _output_names(node) if name]
        places = [index for index, name in enumerate(_output_names(node)) if name]
        num_outputs = len(node.outputs)

        def run(*values: Any) -> Any:
            results = session.run(wanted, {name: values[index] for index, name in fed})
            if num_outputs == 1:
                return results[0]
            outputs: list[Any] = [None] * num_outputs
            for place, result in zip(places, results, strict=True):
                outputs[place] = result
            return tuple(outputs)

        return Kernel(run)

    def _session(self, node: NodeSpec) -> Any:
        model = _one_node_model(node)
        key = hashlib.sha256(model).digest()
        with self._lock:
            found = self._sessions.get(key)
            if found is None:
                found = _load(model)
                self._sessions.put(key, found)
            return found


def _load(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # folding a node whose inputs are all constants would run it now, and kernels crash on nodes that make no sense
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=["ConstantFolding"]
    )


@cache
def _kernel_versions() -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Versions, first to last, of each operator that ONNX Runtime's CPU provider has kernels for."""
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in onnxruntime_pybind11_state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            found.setdefault((kernel.domain, kernel.op_name), []).append(kernel.version_range)
    return found


def _why_not(node: NodeSpec) -> str | None:
    versions = _kernel_versions().get((node.domain, node.op_type), [])
    if not any(first <= node.since_version <= last for first, last in versions):
        # as a function it may have loops inside, of whose shapes a single node does not say enough
        return "ONNX Runtime has no kernel for it, at most a function"
    if any(isinstance(value, ir.Graph) for value in node.attributes.values()):
        return "it has graphs, and single nodes go to ONNX Runtime without what surrounds them"
    if node.op_type in ("ReduceMax", "ReduceMin") and ir.DataType.BOOL in map(_element_type, node.inputs):
        return "ONNX Runtime fails on booleans where there are none to reduce"
    if node.op_type == "ConvInteger" and _shape(node, 3) not in ((), (1,), None):
        return "ONNX Runtime takes one zero point for all weights"
    if node.op_type == "LayerNormalization" and node.attributes.get("stash_type", 1) != 1:
        return "ONNX Runtime crashes on other stash types than float32"
    if node.op_type == "Attention" and len(node.inputs) > 6 and None not in (node.inputs[3], node.inputs[6]):
        return "ONNX Runtime wants masks for whole sequences also where these are padded"
    if node.op_type == "Split" and node.attributes.get("num_outputs", len(node.outputs)) != len(node.outputs):
        return "ONNX Runtime crashes where num_outputs is not the number of outputs"
    for kind, types in (("input", node.inputs), ("output", node.outputs)):
        for index, value in enumerate(types):
            if value is not None and not _has_arrays(value):
                return f"{kind} {index} is of type {value}, which ONNX Runtime's Python interface has no arrays for"
    return None


def _shape(node: NodeSpec, index: int) -> Sequence[int | str | None] | None:
    """The shape of an input; None where there is none, or nobody knows it."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return value.shape if isinstance(value, TensorType) else None


def _element_type(value: ValueType | None) -> ir.DataType | None:
    return value.dtype if isinstance(value, TensorType) else None


def _has_arrays(value: ValueType) -> bool:
    if isinstance(value, SequenceType):
        return _has_arrays(value.element)
    if not isinstance(value, TensorType):
        return False
    return value.dtype is ir.DataType.UNDEFINED or not is_ml_dtype(numpy_dtype(value.dtype))


def _input_names(node: NodeSpec) -> list[str]:
    return ["" if value is None else f"x{index}" for index, value in enumerate(node.inputs)]


def _output_names(node: NodeSpec) -> list[str]:
    return ["" if value is None else f"y{index}" for index, value in enumerate(node.outputs)]


def _one_node_model(node: NodeSpec) -> bytes:
    """The node alone, serialized; shapes are left open, so one session serves inputs of any shape."""
    values = [
        None if kind is None else _value(name, kind)
        for name, kind in zip(_input_names(node), node.inputs, strict=True)
    ]
    for index, array in node.constants.items():
        value = values[index]
        if value is not None:
            value.const_value = ir.tensor(array, name=value.name)
    outputs = [_value(name, kind) for name, kind in zip(_output_names(node), node.outputs, strict=True)]
    ir_node = ir.Node(node.domain, node.op_type, values, _attributes(node), outputs=outputs)
    graph = ir.Graph(
        [value for index, value in enumerate(values) if value is not None and index not in node.constants],
        [value for value in outputs if value.name],
        nodes=[ir_node],
        initializers=[
            value for index, value in enumerate(values) if value is not None and index in node.constants
        ],
        opset_imports={node.domain: node.opset} | ({} if node.domain == "" else {"": 22}),
        name="node",
    )
    return ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()


def _value(name: str, kind: ValueType | None) -> ir.Value:
    return ir.Value(name=name, type=None if kind is None else _ir_type(kind))


def _ir_type(kind: ValueType) -> ir.TypeProtocol | None:
    """The type without shapes; None where it is not known."""
    if isinstance(kind, SequenceType):
        element = _ir_type(kind.element)
        return None if element is None else ir.SequenceType(element)
    assert isinstance(kind, TensorType)
    return None if kind.dtype is ir.DataType.UNDEFINED else ir.TensorType(kind.dtype)


def _attributes(node: NodeSpec) -> list[ir.Attr]:
    plain = {
        name: list(value) if isinstance(value, tuple) else value for name, value in node.attributes.items()
    }
    empty = [name for name, value in plain.items() if value == []]
    tensors = {name: ir.tensor(value) for name, value in plain.items() if isinstance(value, np.ndarray)}
    filled = {name: value for name, value in (plain | tensors).items() if name not in empty}
    return [*ir.convenience.convert_attributes(filled), *_empty_lists(node, empty)]


def _empty_lists(node: NodeSpec, names: Sequence[str]) -> Iterator[ir.Attr]:
    """Attributes whose kind their values do not show; of operators without a schema they are left out."""
    known = schema(node.domain, node.op_type, node.opset)
    for name in names:
        if known is not None and name in known.attributes:
            kind: Any = int(known.attributes[name].type)  # pyright: ignore[reportArgumentType]
            yield ir.Attr(name, ir.AttributeType(kind), ())
