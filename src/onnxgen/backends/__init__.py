"""Executors of models behind one seam: `base` is the contract, `fake` a scripted model, `ort` ONNX Runtime.

Knows arrays, graphs and devices; knows nothing of requests, prompts or model folders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from onnxgen.backends.base import Backend, DecoderModel
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.suggest import did_you_mean

AUTO = "auto"


def _load_ort(model: DecoderModel, config: RuntimeConfig) -> Backend:
    from onnxgen.backends.ort.backend import OrtBackend

    return OrtBackend(model, config)


# best first: `auto` takes the first one
_LOADERS: Mapping[str, Callable[[DecoderModel, RuntimeConfig], Backend]] = MappingProxyType(
    {"ort": _load_ort}
)


def backend_names() -> tuple[str, ...]:
    """Names of the backends of this version, best first."""
    return tuple(_LOADERS)


def load_backend(model: DecoderModel, config: RuntimeConfig) -> Backend:
    """Load a decoder into the backend that the configuration names.

    Raises:
        ConfigError: No such backend, or its configuration is wrong.
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The model needs what the backend cannot do.
        BackendError: The backend failed to load the model.
    """
    name = next(iter(_LOADERS)) if config.backend == AUTO else config.backend
    loader = _LOADERS.get(name)
    if loader is None:
        known = [AUTO, *_LOADERS]
        raise ConfigError(
            f"backend {name!r} is not available in this version of onnxgen; available: {', '.join(known)}"
            f"{did_you_mean(name, known)}"
        )
    return loader(model, config)
