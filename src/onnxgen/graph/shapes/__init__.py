"""Shape inference over symbolic dimensions, for standard and contrib operators.

Knows the shapes operators give; knows no costs, kernels or providers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.foundations.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxgen.graph.shapes.expressions import compile_sizes, size_source, symbols_in
    from onnxgen.graph.shapes.infer import infer_shapes
    from onnxgen.graph.shapes.report import InferenceReport

__all__ = ["InferenceReport", "compile_sizes", "infer_shapes", "size_source", "symbols_in"]

__getattr__ = lazy_names(
    __name__,
    {
        "expressions": ("compile_sizes", "size_source", "symbols_in"),
        "infer": ("infer_shapes",),
        "report": ("InferenceReport",),
    },
)
