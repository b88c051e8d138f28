"""Which version of an operator a model means: the schema in force at its opset."""

from __future__ import annotations

from functools import cache

import onnx.defs

_MOST = 2**31 - 1  # onnx keeps versions in 32 bits, files in 64


@cache
def schema(domain: str, op_type: str, opset: int) -> onnx.defs.OpSchema | None:
    """The schema that governs ``op_type`` in a model that imports ``opset`` of ``domain``; None where onnx has none."""
    try:
        return onnx.defs.get_schema(op_type, max_inclusive_version=min(opset, _MOST), domain=domain)
    except onnx.defs.SchemaError:
        return None


@cache
def since_version(domain: str, op_type: str, opset: int) -> int:
    """The opset in which that form of the operator began; 1 for operators that onnx does not define.

    ``Softmax`` of a model of opset 12 is version 11 of the operator, of opset 17 version 13.
    """
    found = schema(domain, op_type, opset)
    return 1 if found is None else found.since_version


def normal_domain(domain: str) -> str:
    """The one spelling of a domain: the standard's is empty, however a file writes it."""
    return "" if domain == "ai.onnx" else domain


def newest_opset(domain: str = "") -> int:
    """The newest opset of a domain that the installed onnx knows.

    Raises:
        KeyError: when onnx does not know the domain.
    """
    _, newest = onnx.defs.C.schema_version_map()[domain]
    return int(newest)
