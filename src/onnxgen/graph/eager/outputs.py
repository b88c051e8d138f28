"""Outputs of eager calls: how many there are, and of which types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.defs
import onnx_ir as ir

from onnxgen.errors import OptionError
from onnxgen.graph.eager.inputs import DTYPE_OF_NAME
from onnxgen.graph.ir.types import UNKNOWN, TensorType, ValueType

_Option = onnx.defs.OpSchema.FormalParameterOption


class OutputCount:
    """How many outputs calls of an operator have.

    Args:
        schema: Its schema; None where nobody knows it.
        operator: Its name.

    Attributes:
        usual: Outputs of a call that does not say how many; None where inputs and attributes decide.
    """

    def __init__(self, schema: onnx.defs.OpSchema | None, operator: str) -> None:
        self._operator = operator
        self._least, self._most = (
            (1, None) if schema is None else (max(1, schema.min_output), schema.max_output)
        )
        options = () if schema is None else tuple(output.option for output in schema.outputs)
        self.usual: int | None = max(1, options.count(_Option.Single))
        if options and options[-1] is _Option.Variadic:
            self.usual = None

    def of(self, asked: int | None, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> int:
        """As asked, or every one that is not optional.

        Raises:
            OptionError: the operator has no such number of outputs, or needs to be told.
        """
        if asked is None:
            return _variadic(inputs, attributes, self._operator) if self.usual is None else self.usual
        if type(asked) is not int or asked < self._least or (self._most is not None and asked > self._most):
            most = "more" if self._most is None else self._most
            raise OptionError(
                f"{self._operator} has {self._least} to {most} outputs, outputs={asked!r} was asked for"
            )
        return asked


def _variadic(inputs: Sequence[Any], attributes: Mapping[str, Any], operator: str) -> int:
    graphs = [value for value in attributes.values() if isinstance(value, ir.Graph)]
    if graphs:
        return len(graphs[0].outputs) - (
            operator == "Loop"
        )  # the first output of Loop's body is its condition
    if "num_outputs" in attributes:
        return attributes["num_outputs"]
    sizes = attributes.get("split") or (inputs[1] if len(inputs) > 1 else None)
    if operator == "Split" and sizes is not None:
        return len(np.asarray(sizes))
    raise OptionError(f"{operator} has any number of outputs; say how many with outputs=")


def output_types(
    schema: onnx.defs.OpSchema | None, inputs: Sequence[ValueType | None], count: int
) -> tuple[ValueType, ...]:
    """Types of the outputs as far as the inputs' types fix them."""
    if schema is None or not schema.outputs:
        return (UNKNOWN,) * count
    bound = {
        formal.type_str: kind
        for formal, kind in zip(schema.inputs, inputs, strict=False)
        if kind is not None and formal.is_homogeneous
    }
    formals = [schema.outputs[min(index, len(schema.outputs) - 1)] for index in range(count)]
    return tuple(_output_type(formal, bound) for formal in formals)


def _output_type(formal: onnx.defs.OpSchema.FormalParameter, bound: Mapping[str, ValueType]) -> ValueType:
    if formal.type_str in DTYPE_OF_NAME:
        return TensorType(DTYPE_OF_NAME[formal.type_str])
    kind = bound.get(formal.type_str, UNKNOWN) if formal.is_homogeneous else UNKNOWN
    return TensorType(kind.dtype) if isinstance(kind, TensorType) else kind
