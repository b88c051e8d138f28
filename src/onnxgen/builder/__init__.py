"""Checkpoints to ONNX folders: Hugging Face safetensors or GGUF in, `model.onnx` and its metadata out.

Knows architectures, weights and quantization; runs no model.
"""

from typing import TYPE_CHECKING

from onnxgen.foundations.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxgen.builder.options import BuildOptions
    from onnxgen.builder.pipeline import build
    from onnxgen.builder.report import BuildReport

__all__ = ["BuildOptions", "BuildReport", "build"]

__getattr__ = lazy_names(
    __name__, {"options": ("BuildOptions",), "pipeline": ("build",), "report": ("BuildReport",)}
)
