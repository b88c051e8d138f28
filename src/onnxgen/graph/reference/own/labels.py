"""LabelEncoder in every version, and Normalizer: onnx.reference knows neither class names nor keys that are NaN."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()

_ML = "ai.onnx.ml"
_NAN_KEYS_SINCE = 4
_NAN = ("NaN",)  # NaN is not equal to itself, so it cannot be a key


@OWN.operator("LabelEncoder", 1, domain=_ML)
class LabelEncoderOfClasses(OpRun):
    """Strings to their position among the classes, or positions to strings."""

    def _run(
        self, x: np.ndarray, *, classes_strings: list[str], default_int64: int, default_string: str
    ) -> Any:
        if x.dtype.kind in "OU":
            numbers = {name: number for number, name in enumerate(classes_strings)}
            return (_mapped(x, numbers, np.int64(default_int64)),)
        return (_mapped(x, dict(enumerate(classes_strings)), np.str_(default_string)),)


@OWN.operator("LabelEncoder", 2, 4, domain=_ML)
class LabelEncoder(OpRun):
    """Keys to values, and everything else to a default. NaN is a key since version 4."""

    op_schema: Any  # set for each version by the table

    def _run(self, x: np.ndarray, **given: Any) -> Any:
        keys, _ = _list(given, "keys")
        values, kind = _list(given, "values")
        tensor = given.get("default_tensor")
        default = given[f"default_{kind}"] if tensor is None or kind != "tensor" else tensor.reshape(-1)[0]
        table = {_key(key): value for key, value in zip(keys, values, strict=True)}
        if self.op_schema.since_version < _NAN_KEYS_SINCE:
            table.pop(_NAN, None)
        exact = {"float": np.float32, "int64": np.int64, "string": np.str_}.get(kind)
        return (_mapped(x, table, exact(default) if exact else np.asarray(default)[()]),)


@OWN.operator("Normalizer", 1, domain=_ML)
class Normalizer(OpRun):
    """Each row divided by its greatest value, the sum of its absolute values, or its Euclidean length, unless that is 0."""

    def _run(self, x: np.ndarray, *, norm: str) -> Any:
        rows = x.astype(np.float64)
        if norm == "MAX":
            size = rows.max(axis=-1, keepdims=True)
        else:
            size = np.linalg.norm(rows, ord=1 if norm == "L1" else 2, axis=-1, keepdims=True)
        return (np.where(size == 0, rows, rows / np.where(size == 0, 1, size)).astype(np.float32),)


def _list(given: Mapping[str, Any], what: str) -> tuple[list[Any], str]:
    """The keys or values that the node has, and of which kind."""
    for kind in ("float", "int64", "string"):
        found = given.get(f"{what}_{kind}s")
        if found is not None and len(found):
            return list(found), kind
    tensor = given[f"{what}_tensor"]
    return list(tensor.reshape(-1)), "tensor"


def _key(value: Any) -> Any:
    if isinstance(value, str | bytes):
        return value.decode() if isinstance(value, bytes) else str(value)
    return _NAN if value != value else value  # noqa: PLR0124


def _mapped(x: np.ndarray, table: Mapping[Any, Any], default: Any) -> np.ndarray:
    kind = np.asarray(default).dtype
    values = [table.get(_key(item), default) for item in x.reshape(-1)]
    return np.array(values, np.str_ if kind.kind == "U" else kind).reshape(x.shape)
