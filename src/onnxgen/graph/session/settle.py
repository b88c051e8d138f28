"""What options say of a model, written into it before it is compiled."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxgen.errors import ConfigError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.graph.ir.types import numpy_dtype, type_name
from onnxgen.graph.session.options import SessionOptions

_OVERRIDABLE_SINCE_IR = 4


def settle(model: ir.Model, options: SessionOptions, origin: str) -> None:
    """Fix free dimensions, replace initializers, and drop inputs that only repeat an initializer.

    Before IR version 4 every initializer had to be listed as an input, which said nothing about feeding it.

    Raises:
        ConfigError: an initializer does not exist, or differs in type or shape.
    """
    graph = model.graph
    for name, array in options.initializers.items():
        _replace_initializer(graph, name, array, origin)
    if (model.ir_version or 0) < _OVERRIDABLE_SINCE_IR:
        for value in [value for value in graph.inputs if value.name in graph.initializers]:
            graph.inputs.remove(value)
    for value in (*graph.inputs, *graph.outputs):
        _fix_dimensions(value, options)


def _replace_initializer(graph: ir.Graph, name: str, array: np.ndarray, origin: str) -> None:
    value = graph.initializers.get(name)
    if value is None or value.const_value is None:
        raise ConfigError(f"{origin} has no initializer {name!r}{did_you_mean(name, graph.initializers)}")
    old = value.const_value
    expected = numpy_dtype(old.dtype)
    if array.dtype != expected or array.shape != tuple(old.shape.numpy()):
        raise ConfigError(
            f"initializer {name!r} of {origin} is {type_name(old.dtype)}{list(old.shape)}, the one to take its place "
            f"is {array.dtype}{list(array.shape)}"
        )
    if old.dtype is ir.DataType.STRING:
        texts = [text.encode("utf-8", "surrogateescape") for text in array.reshape(-1).tolist()]
        value.const_value = ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)
    else:
        value.const_value = ir.Tensor(array, dtype=old.dtype, name=name)


def _fix_dimensions(value: ir.Value, options: SessionOptions) -> None:
    by_name, by_denotation = options.free_dimension_overrides, options.free_denotation_overrides
    if value.shape is None or not (by_name or by_denotation):
        return
    dims = [
        dim if isinstance(dim, int)
        else by_name.get(dim.value or "", by_denotation.get(value.shape.get_denotation(axis) or "", dim))
        for axis, dim in enumerate(value.shape)
    ]  # fmt: skip
    value.shape = ir.Shape(dims, [value.shape.get_denotation(axis) for axis in range(len(dims))])
