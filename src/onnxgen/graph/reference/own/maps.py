"""Operators of ai.onnx.ml on dictionaries and category names, which onnx.reference leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()

_ML = "ai.onnx.ml"
_CAST_TO = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": np.str_}


@OWN.operator("ZipMap", 1, domain=_ML)
class ZipMap(OpRun):
    """A dictionary from class labels to scores for each row."""

    def _run(
        self,
        x: np.ndarray,
        *,
        classlabels_int64s: Sequence[int] | None = None,
        classlabels_strings: Sequence[str] | None = None,
    ) -> Any:
        labels = list(classlabels_strings or classlabels_int64s or ())
        rows = x if x.ndim == 2 else x.reshape(1, -1)
        if len(labels) != rows.shape[1]:
            raise ValueError(f"ZipMap has {len(labels)} labels for rows of {rows.shape[1]} scores")
        return ([dict(zip(labels, row.tolist(), strict=True)) for row in rows],)


@OWN.operator("CastMap", 1, domain=_ML)
class CastMap(OpRun):
    """The values of a dictionary in the order of their keys, dense or at the places that the keys name."""

    def _run(self, x: Mapping[int, Any], *, cast_to: str, map_form: str, max_map: int) -> Any:
        kind = _CAST_TO[cast_to]
        texts = cast_to == "TO_STRING"
        if map_form == "DENSE":
            values = [x[key] for key in sorted(x)]
        else:
            values = [x.get(place, "" if texts else 0) for place in range(max_map)]
        return (np.array([[str(v) if texts else kind(float(v)) for v in values]], kind),)


@OWN.operator("CategoryMapper", 1, domain=_ML)
class CategoryMapper(OpRun):
    """Category names to numbers or numbers to names, with a default for others."""

    def _run(
        self,
        x: np.ndarray,
        *,
        cats_int64s: Sequence[int],
        cats_strings: Sequence[str],
        default_int64: int = -1,
        default_string: str = "_Unused",
    ) -> Any:
        if x.dtype.kind in "OU":
            numbers = dict(zip(cats_strings, cats_int64s, strict=True))
            return (
                np.array([numbers.get(str(v), default_int64) for v in x.flat], np.int64).reshape(x.shape),
            )
        names = dict(zip(cats_int64s, cats_strings, strict=True))
        return (np.array([names.get(int(v), default_string) for v in x.flat], np.str_).reshape(x.shape),)
