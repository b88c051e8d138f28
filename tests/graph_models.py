"""Small models from ONNX text, for tests of the graph runtime."""

from __future__ import annotations

import onnx.parser


def model(graph, *, ir=10, opset=17, domains="", extra=""):
    """``graph`` is ONNX text such as ``g (float[N] x) => (float[N] y) { y = Relu(x) }``."""
    imports = f'"" : {opset}{domains}'
    return onnx.parser.parse_model(f"<ir_version: {ir}, opset_import: [{imports}]{extra}>\n{graph}")


def identity(kind, *, ir=10, opset=21):
    """A model that gives back its input."""
    return model(f"g ({kind} x) => ({kind} y) {{ y = Identity(x) }}", ir=ir, opset=opset)
