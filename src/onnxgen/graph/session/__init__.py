"""`InferenceSession` with the surface of ONNX Runtime.

Joins loader, optimizer, planner and providers; has no mechanism of its own.
"""

from onnxgen.graph.session.inference_session import InferenceSession
from onnxgen.graph.session.io_binding import IOBinding
from onnxgen.graph.session.model_metadata import ModelMetadata
from onnxgen.graph.session.node_arg import NodeArg
from onnxgen.graph.session.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    SessionOptions,
)
from onnxgen.graph.session.ort_value import OrtValue
from onnxgen.graph.session.run_options import RunOptions

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "ModelMetadata",
    "NodeArg",
    "OrtValue",
    "RunOptions",
    "SessionOptions",
]
