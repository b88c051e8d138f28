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
from onnxgen.graph.session.session_log import LEVELS, LOGGER

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
    "get_device",
    "set_default_logger_severity",
]


def get_all_providers() -> list[str]:
    """Names of every execution provider that an installed package declares."""
    return list(provider_names())


def get_available_providers() -> list[str]:
    """Names of the execution providers that work without options on this machine."""
    return [name for name in provider_names() if _works(name)]


def get_device() -> str:
    """``CPU``: where values that go in and out of sessions are."""
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Choose the least severity of what sessions say, where their own options leave it open.

    Where messages go is up to the application: `logging.basicConfig` shows them on standard error.

    Args:
        severity: 0 (verbose), 1 (info), 2 (warning), 3 (error) or 4 (fatal).

    Raises:
        ConfigError: it is none of these.
    """
    if severity not in LEVELS:
        raise ConfigError(
            f"severities are {', '.join(map(str, LEVELS))} (verbose to fatal), found {severity!r}"
        )
    LOGGER.setLevel(LEVELS[severity])


def _works(name: str) -> bool:
    try:
        load_provider(name)
    except (BackendError, ConfigError):
        return False
    return True
