"""What becomes of a model once it is compiled: a file, on request, and then nothing that holds memory."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from onnxgen.errors import CapabilityError
from onnxgen.foundations.files import write_atomically

_MOST_EMBEDDED_BYTES = 2**30
"""Weights that go into the model's own file, which protobuf limits to twice that."""


def write_model(model: ir.Model, path: Path) -> None:
    """Write a model; large weights go to a file beside it, with ``.data`` after its name.

    Raises:
        CapabilityError: nodes mean other versions of operators than the model imports, which no file can say.
        OSError: the file cannot be written.
    """
    strange = [node for node in model.graph.all_nodes() if node.version is not None]
    if strange:
        first = strange[0]
        raise CapabilityError(
            f"cannot write {path}: {len(strange)} of its nodes come from functions that import another opset than the model, "
            f"the first is {first.op_type} {first.name!r} of opset {first.version}; convert the model to one opset"
        )
    if sum(tensor.nbytes for tensor in _weights(model)) > _MOST_EMBEDDED_BYTES:
        ir.save(model, path, external_data=f"{path.name}.data", size_threshold_bytes=1024)
    else:
        write_atomically(path, ir.to_proto(model).SerializeToString())


def let_go(model: ir.Model) -> None:
    """Take the weights out of a model. Its graph refers to itself, and would keep them until a garbage collection."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            value.const_value = None


def _weights(model: ir.Model) -> list[ir.TensorProtocol]:
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return [value.const_value for value in values if value.const_value is not None]
