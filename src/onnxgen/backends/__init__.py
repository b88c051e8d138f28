"""Executors of models behind one seam: `base` is the contract, `fake` a scripted model, `native` and `ort` run graphs.

Knows arrays, graphs and devices; knows nothing of requests, prompts or model folders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from onnxgen.backends.base import Backend, DecoderModel
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.suggest import did_you_mean

_log = logging.getLogger(__name__)

AUTO = "auto"
NATIVE = "native"
ORT = "ort"


@dataclass(frozen=True, slots=True)
class BackendChoice:
    """Which backend runs a model, and why.

    Attributes:
        name: Of the backend.
        reason: What decided.
    """

    name: str
    reason: str


def _load_native(model: DecoderModel, config: RuntimeConfig) -> Backend:
    from onnxgen.backends.native.backend import NativeBackend

    return NativeBackend(model, config)


def _load_ort(model: DecoderModel, config: RuntimeConfig) -> Backend:
    from onnxgen.backends.ort.backend import OrtBackend

    return OrtBackend(model, config)


# best first
_LOADERS: Mapping[str, Callable[[DecoderModel, RuntimeConfig], Backend]] = MappingProxyType(
    {NATIVE: _load_native, ORT: _load_ort}
)


def backend_names() -> tuple[str, ...]:
    """Names of the backends of this version, best first."""
    return tuple(_LOADERS)


def choose_backend(model: DecoderModel, config: RuntimeConfig) -> BackendChoice:
    """Which backend `load_backend` takes: the one that is asked for, else the native one where it can run the model.

    Raises:
        ConfigError: No such backend.
        ModelFileError: The model's graph is missing or broken.
    """
    if config.backend != AUTO:
        _loader(config.backend)
        return BackendChoice(config.backend, "it was asked for")
    from onnxgen.backends.native.wishes import wishes_beyond

    wish = wishes_beyond(model, config)
    if wish is not None:
        return BackendChoice(ORT, f"{wish}, which only ONNX Runtime has")
    from onnxgen.backends.native.prepared import prepare

    try:
        prepare(model, config)
    except CapabilityError as reason:
        return BackendChoice(ORT, str(reason))
    return BackendChoice(NATIVE, "its kernels run every node of the graph")


def load_backend(model: DecoderModel, config: RuntimeConfig) -> Backend:
    """Load a decoder into the backend that the configuration names, or into the best one that can run it.

    Raises:
        ConfigError: No such backend, or its configuration is wrong.
        ModelFileError: A file of the model is missing or broken.
        CapabilityError: The model needs what the backend cannot do.
        BackendError: The backend failed to load the model.
    """
    if config.backend != AUTO:
        return _loader(config.backend)(model, config)
    from onnxgen.backends.native.wishes import wishes_beyond

    reason = wishes_beyond(model, config)
    if reason is None:
        try:
            return _load_native(model, config)
        except CapabilityError as cause:
            reason = str(cause)
    _log.info("%s runs with ONNX Runtime: %s", model.path, reason)
    return _load_ort(model, config)


def _loader(name: str) -> Callable[[DecoderModel, RuntimeConfig], Backend]:
    loader = _LOADERS.get(name)
    if loader is None:
        known = [AUTO, *_LOADERS]
        raise ConfigError(
            f"backend {name!r} is not available in this version of onnxgen; available: {', '.join(known)}"
            f"{did_you_mean(name, known)}"
        )
    return loader
