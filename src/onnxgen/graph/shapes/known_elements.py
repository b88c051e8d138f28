"""What is known of the elements of an operator's inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgen.graph.shapes.context import Context, Element
from onnxgen.graph.shapes.rules.tools import input_at

MOST_DIMS = 64
"""Longest tensor whose elements are made up from its length: NumPy has no shapes of more dimensions."""

Elements = Sequence[Element]
Rule = Callable[[Context, ir.Node], Elements | None]
"""From a node to the elements of its first output; None where nothing is known."""


def elements_of(context: Context, node: ir.Node, index: int = 0) -> Elements | None:
    """Known elements of an input; unknown ones where only its length is known."""
    value = input_at(node, index)
    found = context.elements(value)
    if found is not None or value is None or value.shape is None:
        return found
    if len(value.shape) == 0:
        return [None]
    length = value.shape[0]
    return (
        [None] * length if len(value.shape) == 1 and isinstance(length, int) and length <= MOST_DIMS else None
    )


def constants_of(context: Context, node: ir.Node, index: int) -> list[int] | None:
    """Elements of an input that are all numbers."""
    found = context.elements(input_at(node, index))
    if found is None:
        return None
    whole = [item for item in found if isinstance(item, int)]
    return whole if len(whole) == len(found) else None


def repeated(elements: Elements, length: int) -> list[Element]:
    """A single element as many of it; others as they are."""
    return list(elements) * length if len(elements) == 1 else list(elements)
