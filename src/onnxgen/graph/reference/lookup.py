"""How an operator of the standard runs here, or why it does not."""

from __future__ import annotations

from enum import Enum
from functools import cache
from importlib.util import find_spec
from typing import Any

from onnx.reference import ops
from onnx.reference.op_run import OpRun
from onnx.reference.ops import aionnx_preview, aionnx_preview_training, aionnxml

from onnxgen.graph.ir.schemas import schema
from onnxgen.graph.reference.own.every import own_operators


class Way(Enum):
    """How an operator runs."""

    CLASS = "by a class"
    FUNCTION = "as a function of other operators"


_LOADERS: dict[str, Any] = {
    "": ops.load_op,
    "ai.onnx.ml": aionnxml.load_op,
    "ai.onnx.preview": aionnx_preview.load_op,
    "ai.onnx.preview.training": aionnx_preview_training.load_op,
}


@cache
def way_to_run(domain: str, op_type: str, opset: int) -> Way | str:
    """How the operator runs, or the reason why it does not."""
    known: Any = schema(domain, op_type, opset)  # the stub of onnx's class lacks what is asked below
    if known is None or domain not in _LOADERS:
        return "is no operator of the standard"
    if op_type == "ImageDecoder" and find_spec("PIL") is None:
        return "onnx.reference decodes images with Pillow, which is not installed"
    if operator_class(domain, op_type, opset) is not None:
        return Way.CLASS
    if known.has_function or known.has_context_dependent_function:
        return Way.FUNCTION
    return f"onnx.reference does not have version {known.since_version} of it"


@cache
def operator_class(domain: str, op_type: str, opset: int) -> type[OpRun] | None:
    """The class that runs an operator: our own, else onnx.reference's, else None."""
    known = schema(domain, op_type, opset)
    if known is not None and (domain, op_type, known.since_version) in own_operators():
        return own_operators()[domain, op_type, known.since_version]
    try:
        found = _LOADERS[domain](domain, op_type, opset)
    except (NotImplementedError, AssertionError, RuntimeError, ValueError):  # no class, or none so old
        return None
    return found if isinstance(found, type) else None


@cache
def replacements(opsets: tuple[tuple[str, int], ...]) -> tuple[type[OpRun], ...]:
    """Our own classes for the operators that these opsets mean, for graphs and functions that onnx.reference runs."""
    return tuple(
        implementation
        for domain, opset in opsets
        for (own_domain, op_type, version), implementation in own_operators().items()
        if own_domain == domain
        and (known := schema(domain, op_type, opset)) is not None
        and known.since_version == version
    )
