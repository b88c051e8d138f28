"""What this machine and this process can do: devices and logging, by onnxruntime-genai's names."""

from __future__ import annotations

import logging
from typing import NoReturn

from onnxgen.errors import CapabilityError, OptionError
from onnxgen.foundations.suggest import did_you_mean

_ON_OFF = ("enabled", "warning", "generate_next_token", "append_next_tokens", "hit_eos", "hit_max_length")
_VALUES = (
    "model_input_values",
    "model_output_shapes",
    "model_output_values",
    "model_logits",
    "ort_lib",
    "graph_capture",
)
_STYLE = ("ansi_tags", "value_stats")


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


def set_log_options(**options: bool | str) -> None:
    """Switch the messages of the ``onnxgen`` logger on or off.

    Where they go is up to the application: `logging.basicConfig` shows them on standard error.

    Args:
        options: ``enabled`` shows messages from level INFO on, False warnings only; the other names that
            onnxruntime-genai has are accepted where they ask for nothing more than that.

    Raises:
        OptionError: An option is unknown or of the wrong type.
        CapabilityError: Tensor values are to be shown, or messages to be written to a file.
    """
    for name, value in options.items():
        if name == "filename":
            if value:
                raise CapabilityError(
                    f"messages were to go to {value!r}; add a logging.FileHandler to logging.getLogger('onnxgen')"
                )
            continue
        if name not in (*_ON_OFF, *_VALUES, *_STYLE):
            raise OptionError(
                f"unknown log option {name!r}{did_you_mean(name, (*_ON_OFF, *_VALUES, *_STYLE))}"
            )
        if not isinstance(value, bool):
            raise OptionError(f"{name} must be True or False, got {value!r}")
        if name in _VALUES and value:
            raise CapabilityError(
                f"{name} was asked for; this version does not log what goes through a model"
            )
    if "enabled" in options:
        logging.getLogger("onnxgen").setLevel(logging.INFO if options["enabled"] else logging.WARNING)


def _has_provider(name: str) -> bool:
    from onnxgen.backends.ort.providers import available_providers

    return name in available_providers()
