"""Kernels from NumPy functions: what turns a ufunc, a formula or a plain function into a `Kernel`.

ufunc      f(*inputs, out) broadcasts and takes its output last, as NumPy's own do
formula    f(*inputs, y) writes a result of its first input's shape and type into ``y``
function   f(*inputs) returns new arrays; ``into`` copies them
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.graph.cpu.half import writing_wide
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

Ufunc = Callable[..., Any]
Formula = Callable[..., None]


def ufunc_kernel(ufunc: Ufunc, *, num_inputs: int, in_place: bool = True) -> Kernel:
    """The kernel of a function that broadcasts its inputs and takes ``out`` as its last argument.

    Args:
        ufunc: The function.
        num_inputs: How many inputs it takes.
        in_place: Whether its output may be any of its inputs' memory.
    """

    def run(*inputs: np.ndarray) -> np.ndarray:
        return np.asarray(ufunc(*inputs))

    pairs = tuple((0, index) for index in range(num_inputs)) if in_place else ()
    return Kernel(run, ufunc, in_place=pairs)


def formula_kernel(
    formula: Formula, *, in_place: bool = False, own_types: frozenset[np.dtype] = frozenset()
) -> Kernel:
    """The kernel of a formula ``(x, *others, y)``; narrow floating-point types are computed in float32.

    Args:
        formula: Writes ``y``, which has the shape and the type of ``x``.
        in_place: Whether ``y`` may be the memory of ``x``.
        own_types: Narrow types that the formula computes itself.
    """
    into = writing_wide(formula, own_types)

    def run(x: np.ndarray, *others: Any) -> np.ndarray:
        y = np.empty(x.shape, x.dtype)
        into(x, *others, y)
        return y

    return Kernel(run, into, in_place=((0, 0),) if in_place else ())


def function_kernel(function: Callable[..., Any], node: NodeSpec | None = None) -> Kernel:
    """The kernel of a function that returns new arrays, which ``into`` copies.

    Args:
        function: Returns an array, or a tuple of as many as the node has outputs.
        node: The node where it has more than one output.
    """
    num_outputs = 1 if node is None else len(node.outputs)

    def run(*inputs: Any) -> Any:
        result = function(*inputs)
        return result if isinstance(result, tuple) else np.asarray(result)

    def into(*arguments: Any) -> None:
        inputs, outputs = arguments[:-num_outputs], arguments[-num_outputs:]
        results = function(*inputs)
        for result, output in zip(
            results if isinstance(results, tuple) else (results,), outputs, strict=True
        ):
            output[...] = result

    return Kernel(run, into)
