"""What shape rules see while they run: symbols, and values of integer tensors that shapes are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

Size = int | ir.SymbolicDim

_MOST_ELEMENTS = 1024
"""Integer tensors with more elements are data, not shapes."""


class Context(ShapeInferenceContext):
    """A context of the shape inference library whose knowledge leaves no trace in the model.

    What is known of a value's elements is kept here. While inference runs, values that are known in full also carry
    them as ``const_value``, where the library's rules look; `restore` takes that back.
    """

    def __init__(self, opset_imports: Mapping[str, int], taken_symbols: Iterable[str]) -> None:
        super().__init__(opset_imports, policy="override")
        self.reserve_symbol_names(taken_symbols)
        self._elements: dict[ir.Value, list[Size]] = {}
        self._lent: dict[ir.Value, None] = {}
        self._hidden: list[tuple[ir.Value, ir.TensorProtocol]] = []

    def hide_default(self, value: ir.Value) -> None:
        """Take an initializer that a feed can override for what it is: not a constant."""
        if value.const_value is not None:
            self._hidden.append((value, value.const_value))
            value.const_value = None

    def forget(self, value: ir.Value) -> None:
        """Drop everything that was inferred of a value."""
        self._elements.pop(value, None)
        if value in self._lent:
            del self._lent[value]
            value.const_value = None
        value.shape = None
        value.type = None

    def restore(self) -> None:
        """Give the model's values back the constants that they had."""
        for value in self._lent:
            value.const_value = None
        for value, tensor in self._hidden:
            value.const_value = tensor

    def set_symbolic_value(self, value: ir.Value, data: list[Size]) -> None:
        """Keep what is known of the elements of a rank 0 or 1 integer tensor."""
        if len(data) > _MOST_ELEMENTS or (value.shape is not None and len(value.shape) > 1):
            return
        self._elements[value] = data
        whole = [item for item in data if isinstance(item, int)]
        if value.shape is None or len(whole) < len(data) or value.const_value is not None:
            return
        if all(-(2**63) <= item < 2**63 for item in whole):
            array = np.asarray(whole if len(value.shape) else whole[0], np.int64)
            value.const_value = ir.Tensor(array, name=value.name)
            self._lent[value] = None

    def get_symbolic_value(self, value: ir.Value | None) -> list[Size] | None:
        """The elements of a small integer tensor of rank 0 or 1, as far as they are known."""
        if value is None:
            return None
        if value in self._elements:
            return self._elements[value]
        tensor = value.const_value
        if (
            tensor is None
            or len(tensor.shape) > 1
            or tensor.size > _MOST_ELEMENTS
            or not tensor.dtype.is_integer()
        ):
            return None
        return [int(item) for item in tensor.numpy().reshape(-1)]
