"""Sections of ``genai_config.json`` that go to ONNX Runtime: session, run and provider options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, Literal

from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.document import (
    Between,
    Place,
    ReadBy,
    describe,
    read_array,
    read_document,
    read_int64,
    read_object,
    read_str,
)

_DEVICE_FILTER = "device_filtering_options"
_UINT32 = Between(0, 2**32 - 1)
_PROVIDER_NAMES = {
    name.lower(): name
    for name in (
        "CPU",
        "cuda",
        "DML",
        "WebGPU",
        "QNN",
        "OpenVINO",
        "VitisAI",
        "RyzenAI",
        "NvTensorRtRtx",
        "AMDGPU",
    )
}


def _device_type(value: object, place: Place) -> str:
    kind = read_str(value, place).lower()
    if kind not in ("cpu", "gpu", "npu"):
        raise place.error(f"is {value!r}; known are cpu, gpu and npu")
    return kind


@dataclass(frozen=True, slots=True)
class DeviceFilter:
    """Which devices of a plugin provider may be used; None leaves a property open."""

    hardware_device_type: Annotated[str, ReadBy(_device_type)] | None = None
    hardware_device_id: Annotated[int, ReadBy(read_int64), _UINT32] | None = None
    hardware_vendor_id: Annotated[int, ReadBy(read_int64), _UINT32] | None = None


@dataclass(frozen=True, slots=True)
class ProviderOptions:
    """One execution provider and its options.

    Attributes:
        name: As `canonical_provider_name` writes it.
        options: Options as the provider spells them.
        device_filtering_options: Which of its devices may be used.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    device_filtering_options: DeviceFilter | None = None


@dataclass(frozen=True, slots=True)
class KnownSessionOptions:
    """Session options with a setter of their own in ONNX Runtime."""

    intra_op_num_threads: int | None = None
    inter_op_num_threads: int | None = None
    enable_cpu_mem_arena: bool | None = None
    enable_mem_pattern: bool | None = None
    log_id: str | None = None
    log_severity_level: int | None = None
    log_verbosity_level: int | None = None
    enable_profiling: str | None = None
    custom_ops_library: str | None = None
    graph_optimization_level: (
        Literal["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"] | None
    ) = None


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """A ``session_options`` section.

    Attributes:
        known: Options with a setter of their own.
        config_entries: Every other key: a config entry of ONNX Runtime, always a string.
        provider_options: Execution providers in order of preference.
    """

    known: KnownSessionOptions = field(default_factory=KnownSessionOptions)
    config_entries: Mapping[str, str] = field(default_factory=dict[str, str])
    provider_options: tuple[ProviderOptions, ...] = ()

    def as_mapping(self) -> dict[str, Any]:
        """The options as the section spells them, without the providers."""
        given = {key: value for key, value in asdict(self.known).items() if value is not None}
        return {**given, **self.config_entries}


def canonical_provider_name(name: str) -> str:
    """One spelling for the many that exist: ``CUDAExecutionProvider``, ``CUDA`` and ``cuda`` are ``cuda``.

    Names of other providers stay as they are.
    """
    short = name.lower()
    if short.endswith("executionprovider") and short != "executionprovider":
        short = short.removesuffix("executionprovider")
    return _PROVIDER_NAMES.get(short, name)


def read_session_options(value: object, place: Place) -> SessionOptions:
    """Read a ``session_options`` section.

    Raises:
        MetadataError: A value is of the wrong kind.
    """
    document = dict(read_object(value, place))
    providers = read_provider_options(document.pop("provider_options", []), place.key("provider_options"))
    names = KnownSessionOptions.__dataclass_fields__
    known = read_document(
        KnownSessionOptions, {key: document.pop(key) for key in names if key in document}, place
    )
    for key, entry in document.items():
        if not isinstance(entry, str):
            raise place.key(key).error(
                f"must be a string, found {describe(entry)}; it is not one of the session options with a type "
                f"of their own, so it is a config entry of ONNX Runtime{did_you_mean(key, names)}"
            )
    return SessionOptions(known, document, providers)


def read_provider_options(value: object, place: Place) -> tuple[ProviderOptions, ...]:
    """Read ``[{"cuda": {"device_id": "0"}}, ...]``; options of a provider that stands twice are joined."""
    providers: dict[str, ProviderOptions] = {}
    for index, item in enumerate(read_array(value, place)):
        for name, entry in read_object(item, place.item(index)).items():
            added = _read_provider(name, entry, place.item(index).key(name))
            before = providers.get(added.name, added)
            providers[added.name] = ProviderOptions(
                added.name,
                {**before.options, **added.options},
                added.device_filtering_options or before.device_filtering_options,
            )
    return tuple(providers.values())


def _read_provider(name: str, value: object, place: Place) -> ProviderOptions:
    entries = dict(read_object(value, place))
    devices = None
    if _DEVICE_FILTER in entries:
        devices = read_document(DeviceFilter, entries.pop(_DEVICE_FILTER), place.key(_DEVICE_FILTER))
    options = {key: read_str(entry, place.key(key)) for key, entry in entries.items()}
    return ProviderOptions(canonical_provider_name(name), options, devices)


Session = Annotated[SessionOptions, ReadBy(read_session_options)]
"""In a schema: a ``session_options`` section."""
