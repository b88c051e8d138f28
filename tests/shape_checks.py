"""Inferred shapes against the shapes of what really comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import onnx_dtype
from onnxgen.graph.shapes import InferenceReport, compile_sizes, infer_shapes, symbols_in


def make_symbolic(values: Sequence[ir.Value], arrays: Sequence[Any]) -> dict[str, int]:
    """Give every dimension of the inputs a symbol of its own; what each symbol stands for."""
    sizes: dict[str, int] = {}
    for at, (value, array) in enumerate(zip(values, arrays, strict=False)):
        if isinstance(array, np.ndarray):
            names = [f"in{at}_{axis}" for axis in range(array.ndim)]
            value.shape = ir.Shape(names)
            sizes.update(zip(names, array.shape, strict=True))
    return sizes


def known_dims(value: ir.Value, sizes: Mapping[str, int]) -> list[int | None] | None:
    """The inferred shape at those sizes; None for dimensions that only a run knows, and for an unknown rank."""
    if value.shape is None:
        return None
    names = list(sizes)
    return [
        compile_sizes([text], names)(*sizes.values())[0] if symbols_in(text) <= sizes.keys() else None
        for text in (dim if isinstance(dim, int) else dim.value for dim in value.shape)
    ]


def check(value: ir.Value, array: np.ndarray, sizes: Mapping[str, int]) -> bool:
    """Fail unless an inferred type fits an array; whether the whole shape was known."""
    if value.type is not None:
        assert value.dtype == onnx_dtype(array.dtype), f"{value.name}: {value.dtype}, is {array.dtype}"
    dims = known_dims(value, sizes)
    if dims is None:
        return False
    fits = len(dims) == array.ndim and all(
        dim in (None, size) for dim, size in zip(dims, array.shape, strict=True)
    )
    assert fits, f"{value.name}: inferred {value.shape} = {dims} at {dict(sizes)}, is {array.shape}"
    return None not in dims and value.type is not None


def infer_text(text: str) -> tuple[ir.Model, InferenceReport]:
    """Infer a model in ONNX text."""
    model = ir.from_onnx_text(text)
    return model, infer_shapes(model)


def shapes_of(model: ir.Model) -> dict[str, tuple[int | str, ...] | None]:
    """Shapes of the values that the nodes of the main graph compute."""
    return {
        value.name or "": None
        if value.shape is None
        else tuple(dim if isinstance(dim, int) else str(dim.value) for dim in value.shape)
        for node in model.graph
        for value in node.outputs
    }
