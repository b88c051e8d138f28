"""What shape rules see while they run: symbols, and values of integer tensors that shapes are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.shapes.algebra import Size

Element = Size | bool | None
"""An element of a tensor as far as it is known."""

_MOST_ELEMENTS = 1024
"""Tensors with more elements are data, not shapes."""

_MOST_CHARACTERS = 400
"""Longer expressions become symbols of their own, so that time and memory stay bounded."""


class Context(ShapeInferenceContext):
    """A context of the shape inference library whose knowledge leaves no trace in the model.

    What is known of a value's elements is kept here. While inference runs, values that are known in full also carry
    them as ``const_value``, where the library's rules look; `restore` takes that back.
    """

    def __init__(self, opset_imports: Mapping[str, int], taken_symbols: Iterable[str]) -> None:
        super().__init__(opset_imports, policy="override")
        self.reserve_symbol_names(taken_symbols)
        self._elements: dict[ir.Value, Sequence[Element]] = {}
        self._lent: dict[ir.Value, None] = {}
        self._hidden: list[tuple[ir.Value, ir.TensorProtocol]] = []

    def opset_of(self, node: ir.Node) -> int:
        """The opset that governs a node."""
        return self.get_opset_version(normal_domain(node.domain))

    def hide_default(self, value: ir.Value) -> None:
        """Take an initializer that a feed can override for what it is: not a constant."""
        if value.const_value is not None:
            self._hidden.append((value, value.const_value))
            value.const_value = None

    def lend(self, value: ir.Value, tensor: ir.TensorProtocol) -> None:
        """Let rules see a value as the constant that it is, until `restore`."""
        if value.const_value is None:
            value.const_value = tensor
            self._lent[value] = None

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

    def set_shape(self, value: ir.Value, shape: ir.Shape) -> bool:
        """Give a value its shape; dimensions that make no sense or are too long to compute with become symbols."""
        value.shape = ir.Shape([self._usable(dim) for dim in shape])
        return True

    def _usable(self, dim: Size) -> Size:
        if isinstance(dim, int):
            return dim if dim >= 0 else self.new_symbolic_dim()
        usable = dim.value is not None and len(dim.value) <= _MOST_CHARACTERS
        return dim if usable else self.new_symbolic_dim()

    def elements(self, value: ir.Value | None) -> Sequence[Element] | None:
        """Elements of a small tensor of integers or booleans of rank 0 or 1; None where nothing is known of them."""
        if value is None:
            return None
        if value in self._elements:
            return self._elements[value]
        tensor = value.const_value
        if tensor is None or len(tensor.shape) > 1 or tensor.size > _MOST_ELEMENTS:
            return None
        if not (tensor.dtype.is_integer() or tensor.dtype is ir.DataType.BOOL):
            return None
        return [int(item) for item in tensor.numpy().reshape(-1)]

    def set_elements(self, value: ir.Value, elements: Sequence[Element]) -> None:
        """Keep what is known of a tensor of rank 0 or 1."""
        if len(elements) > _MOST_ELEMENTS or value.shape is None or len(value.shape) > 1:
            return
        self._elements[value] = [self._short(item) for item in elements]
        whole = [item for item in elements if isinstance(item, int)]
        if len(whole) < len(elements) or value.const_value is not None or value.dtype is None:
            return
        try:
            array = np.asarray(whole if len(value.shape) else whole[0], value.dtype.numpy())
        except OverflowError:
            return
        self.lend(value, ir.Tensor(array, name=value.name))

    def _short(self, item: Element) -> Element:
        too_long = isinstance(item, ir.SymbolicDim) and len(item.value or "") > _MOST_CHARACTERS
        return None if too_long else item

    def set_symbolic_value(self, value: ir.Value, data: Sequence[Size]) -> None:
        """Ignore what a rule of the library says of elements: `elements` has rules of its own."""

    def get_symbolic_value(self, value: ir.Value | None) -> list[Size] | None:
        """Elements for the library's rules: only if every one of them is known."""
        found = self.elements(value)
        if found is None or value is None or value.dtype is None or not value.dtype.is_integer():
            return None
        known = [item for item in found if item is not None]
        return known if len(known) == len(found) else None
