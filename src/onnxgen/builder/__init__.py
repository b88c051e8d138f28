"""Checkpoints to ONNX folders: Hugging Face safetensors or GGUF in, `model.onnx` and its metadata out.

Knows architectures, weights and quantization; runs no model.
"""

from onnxgen.builder.options import BuildOptions
from onnxgen.builder.pipeline import build
from onnxgen.builder.report import BuildReport

__all__ = ["BuildOptions", "BuildReport", "build"]
