"""What this machine and this process can do, by onnxruntime-genai's names."""

from __future__ import annotations

from typing import NoReturn

from onnxgen.errors import CapabilityError


def is_cuda_available() -> bool:
    """Whether NVIDIA devices can be used."""
    return _has_provider("CUDAExecutionProvider")


def is_dml_available() -> bool:
    """Whether DirectML can be used."""
    return _has_provider("DmlExecutionProvider")


def is_openvino_available() -> bool:
    """Whether OpenVINO can be used."""
    return _has_provider("OpenVINOExecutionProvider")


def is_qnn_available() -> bool:
    """Whether QNN can be used."""
    return _has_provider("QNNExecutionProvider")


def is_webgpu_available() -> bool:
    """Whether WebGPU can be used."""
    return _has_provider("WebGpuExecutionProvider")


def register_execution_provider_library(name: str, path: str) -> NoReturn:
    """Not supported yet: raises `CapabilityError`."""
    raise CapabilityError(
        f"execution provider {name!r} from {path!r} was to be registered; this version uses the providers that "
        "the installed onnxruntime package has"
    )


def disable_telemetry_events() -> None:
    """There is no telemetry: nothing is collected, and nothing is sent."""


def enable_telemetry_events() -> NoReturn:
    """There is no telemetry: raises `CapabilityError`."""
    raise CapabilityError("telemetry was to be enabled; onnxgen collects nothing and sends nothing")


def _has_provider(name: str) -> bool:
    from onnxgen.backends.ort.providers import available_providers

    return name in available_providers()
