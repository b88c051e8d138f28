"""The native ONNX runtime as the package offers it: sessions, values and operators as functions."""

from __future__ import annotations

from onnxgen.errors import BackendError, ConfigError
from onnxgen.graph import eager
from onnxgen.graph.plugin import load_provider, provider_names
from onnxgen.graph.session import (
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
)

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
    "eager",
    "get_all_providers",
    "get_available_providers",
]


def get_all_providers() -> list[str]:
    """Names of every execution provider that an installed package declares."""
    return list(provider_names())


def get_available_providers() -> list[str]:
    """Names of the execution providers that work without options on this machine."""
    return [name for name in provider_names() if _works(name)]


def _works(name: str) -> bool:
    try:
        load_provider(name)
    except (BackendError, ConfigError):
        return False
    return True
