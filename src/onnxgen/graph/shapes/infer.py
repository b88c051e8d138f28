"""Shape inference of a whole model."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.graph.shapes.report import InferenceReport
from onnxgen.graph.shapes.walk import Walk


def infer_shapes(model: ir.Model) -> InferenceReport:
    """Give every value of a model its element type and its shape, in place.

    Types and shapes follow from the model's inputs and weights alone; what the file declares for other values is
    dropped, as it may be wrong. Dimensions that are not known become symbols or expressions of symbols. A rule that
    fails leaves the outputs of its node unknown.

    Raises:
        InvalidGraphError: An operator gets element types that its definition excludes.
    """
    walk = Walk(model)
    try:
        walk.graph(model.graph)
    finally:
        walk.context.restore()
    return walk.report()
