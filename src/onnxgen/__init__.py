"""Run, serve and take apart generative models in ONNX format, from Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxgen.facade.config import Config
    from onnxgen.facade.environment import (
        is_cuda_available,
        is_dml_available,
        is_openvino_available,
        is_qnn_available,
        is_webgpu_available,
        register_execution_provider_library,
        set_log_options,
    )
    from onnxgen.facade.generation_options import GenerationOptions
    from onnxgen.facade.generator import Generator
    from onnxgen.facade.llm import LLM
    from onnxgen.facade.model import Model
    from onnxgen.facade.not_here import Adapters, Audios, Images
    from onnxgen.facade.params import GeneratorParams
    from onnxgen.facade.results import Chunk, Completion, Timings, Usage
    from onnxgen.facade.session import ChatSession
    from onnxgen.facade.tensor import NamedTensors, Tensor
    from onnxgen.facade.tokenizer import Tokenizer, TokenizerStream

__version__ = "0.1.0"

__all__ = [
    "LLM",
    "Adapters",
    "Audios",
    "ChatSession",
    "Chunk",
    "Completion",
    "Config",
    "GenerationOptions",
    "Generator",
    "GeneratorParams",
    "Images",
    "Model",
    "NamedTensors",
    "Tensor",
    "Timings",
    "Tokenizer",
    "TokenizerStream",
    "Usage",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "set_log_options",
]

# name: where it lives; imported when it is first asked for (PEP 562), so that importing onnxgen is quick
_MODULES = {
    "facade.config": ("Config",),
    "facade.environment": (
        "is_cuda_available",
        "is_dml_available",
        "is_openvino_available",
        "is_qnn_available",
        "is_webgpu_available",
        "register_execution_provider_library",
        "set_log_options",
    ),
    "facade.generation_options": ("GenerationOptions",),
    "facade.generator": ("Generator",),
    "facade.llm": ("LLM",),
    "facade.model": ("Model",),
    "facade.not_here": ("Adapters", "Audios", "Images"),
    "facade.params": ("GeneratorParams",),
    "facade.results": ("Chunk", "Completion", "Timings", "Usage"),
    "facade.session": ("ChatSession",),
    "facade.tensor": ("NamedTensors", "Tensor"),
    "facade.tokenizer": ("Tokenizer", "TokenizerStream"),
}
_HOME = {name: f"onnxgen.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'onnxgen' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
