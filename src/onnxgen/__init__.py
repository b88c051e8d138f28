"""Run, serve and take apart generative models in ONNX format, from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.foundations.lazy_names import lazy_names
from onnxgen.version import __version__

if TYPE_CHECKING:
    from onnxgen.engine.config import EngineConfig
    from onnxgen.engine.constraints.grammar import Grammar
    from onnxgen.engine.speculation.options import Speculation
    from onnxgen.facade.adapters import Adapters
    from onnxgen.facade.async_llm import AsyncLLM
    from onnxgen.facade.config import Config
    from onnxgen.facade.embedder import Embedder, Embeddings
    from onnxgen.facade.engine import Engine, EngineCapabilities, RequestOptions
    from onnxgen.facade.engine_buffer import EngineEventBuffer
    from onnxgen.facade.engine_codes import (
        EngineErrorCode,
        EngineEventFlags,
        FinishReason,
        TurnUsage,
    )
    from onnxgen.facade.engine_request import EngineEvent, Request
    from onnxgen.facade.environment import (
        disable_telemetry_events,
        enable_telemetry_events,
        is_cuda_available,
        is_dml_available,
        is_openvino_available,
        is_qnn_available,
        is_webgpu_available,
        register_execution_provider_library,
    )
    from onnxgen.facade.generation_options import GenerationOptions
    from onnxgen.facade.generator import Generator
    from onnxgen.facade.llm import LLM
    from onnxgen.facade.log_options import set_log_callback, set_log_options
    from onnxgen.facade.model import Model
    from onnxgen.facade.not_here import Audios, Images
    from onnxgen.facade.params import GeneratorParams
    from onnxgen.facade.prompt_options import PromptOptions
    from onnxgen.facade.results import (
        Chunk,
        Completion,
        Score,
        Timings,
        TokenLogprob,
        TopToken,
        Usage,
    )
    from onnxgen.facade.runtime import (
        ExecutionMode,
        ExecutionOrder,
        GraphOptimizationLevel,
        InferenceSession,
        IOBinding,
        ModelMetadata,
        NodeArg,
        OrtValue,
        RunOptions,
        SessionOptions,
        eager,
        get_all_providers,
        get_available_providers,
        get_device,
        set_default_logger_severity,
    )
    from onnxgen.facade.session import ChatSession
    from onnxgen.facade.tensor import NamedTensors, Tensor
    from onnxgen.facade.tokenizer import Tokenizer, TokenizerStream
    from onnxgen.facade.turn_options import TurnOptions
    from onnxgen.preprocess.tool_calls.tools import ToolCall
    from onnxgen.scheduler.config import SchedulerConfig

__all__ = [
    "LLM",
    "Adapters",
    "AsyncLLM",
    "Audios",
    "ChatSession",
    "Chunk",
    "Completion",
    "Config",
    "Embedder",
    "Embeddings",
    "Engine",
    "EngineCapabilities",
    "EngineConfig",
    "EngineErrorCode",
    "EngineEvent",
    "EngineEventBuffer",
    "EngineEventFlags",
    "ExecutionMode",
    "ExecutionOrder",
    "FinishReason",
    "GenerationOptions",
    "Generator",
    "GeneratorParams",
    "Grammar",
    "GraphOptimizationLevel",
    "IOBinding",
    "Images",
    "InferenceSession",
    "Model",
    "ModelMetadata",
    "NamedTensors",
    "NodeArg",
    "OrtValue",
    "PromptOptions",
    "Request",
    "RequestOptions",
    "RunOptions",
    "SchedulerConfig",
    "Score",
    "SessionOptions",
    "Speculation",
    "Tensor",
    "Timings",
    "TokenLogprob",
    "Tokenizer",
    "TokenizerStream",
    "ToolCall",
    "TopToken",
    "TurnOptions",
    "TurnUsage",
    "Usage",
    "__version__",
    "disable_telemetry_events",
    "eager",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_device",
    "is_cuda_available",
    "is_dml_available",
    "is_openvino_available",
    "is_qnn_available",
    "is_webgpu_available",
    "register_execution_provider_library",
    "set_default_logger_severity",
    "set_log_callback",
    "set_log_options",
]

__getattr__ = lazy_names(
    __name__,
    {
        "engine.config": ("EngineConfig",),
        "engine.constraints.grammar": ("Grammar",),
        "engine.speculation.options": ("Speculation",),
        "facade.adapters": ("Adapters",),
        "facade.async_llm": ("AsyncLLM",),
        "facade.config": ("Config",),
        "facade.environment": (
            "disable_telemetry_events",
            "enable_telemetry_events",
            "is_cuda_available",
            "is_dml_available",
            "is_openvino_available",
            "is_qnn_available",
            "is_webgpu_available",
            "register_execution_provider_library",
        ),
        "facade.log_options": ("set_log_callback", "set_log_options"),
        "facade.embedder": ("Embedder", "Embeddings"),
        "facade.engine": ("Engine", "EngineCapabilities", "RequestOptions"),
        "facade.engine_buffer": ("EngineEventBuffer",),
        "facade.engine_codes": ("EngineErrorCode", "EngineEventFlags", "FinishReason", "TurnUsage"),
        "facade.engine_request": ("EngineEvent", "Request"),
        "facade.generation_options": ("GenerationOptions",),
        "facade.generator": ("Generator",),
        "facade.llm": ("LLM",),
        "facade.model": ("Model",),
        "facade.not_here": ("Audios", "Images"),
        "facade.params": ("GeneratorParams",),
        "facade.prompt_options": ("PromptOptions",),
        "facade.results": (
            "Chunk",
            "Completion",
            "Score",
            "Timings",
            "TokenLogprob",
            "TopToken",
            "Usage",
        ),
        "facade.runtime": (
            "ExecutionMode",
            "ExecutionOrder",
            "GraphOptimizationLevel",
            "InferenceSession",
            "IOBinding",
            "ModelMetadata",
            "NodeArg",
            "OrtValue",
            "RunOptions",
            "SessionOptions",
            "eager",
            "get_all_providers",
            "get_available_providers",
            "get_device",
            "set_default_logger_severity",
        ),
        "facade.session": ("ChatSession",),
        "facade.tensor": ("NamedTensors", "Tensor"),
        "facade.turn_options": ("TurnOptions",),
        "preprocess.tool_calls.tools": ("ToolCall",),
        "scheduler.config": ("SchedulerConfig",),
        "facade.tokenizer": ("Tokenizer", "TokenizerStream"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
