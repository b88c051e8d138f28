"""`Config`: a model folder, with changes on top, before it is loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import ProviderSpec
from onnxgen.errors import CapabilityError, MetadataError, ModelFileError, OptionError
from onnxgen.metadata.model_spec import ModelSpec


class Config:
    """What a model folder says, with changes on top. Every change is checked when it is made.

    Args:
        path: A model folder.

    Raises:
        ModelNotFoundError: There is no such folder.
        MetadataError: The folder's metadata is missing or wrong.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._folder = Path(path)
        self._overlays: tuple[str, ...] = ()
        self._model_data: dict[str, bytes] = {}
        self._providers: tuple[ProviderSpec, ...] | None = None
        self._spec: ModelSpec | None = None
        self._reload()

    @property
    def folder(self) -> Path:
        """The model folder."""
        return self._folder

    @property
    def spec(self) -> ModelSpec:
        """What folder and changes mean together.

        Raises:
            ModelFileError: The ONNX file is neither in the folder nor given with `add_model_data`.
        """
        return self._load() if self._spec is None else self._spec

    def overlay(self, document: str) -> None:
        """Merge a JSON document of the form of ``genai_config.json`` over the folder's.

        Raises:
            MetadataError: The document or the result is wrong; the configuration is as it was.
        """
        before, self._overlays = self._overlays, (*self._overlays, document)
        try:
            self._reload()
        except BaseException:
            self._overlays = before
            raise

    def clear_providers(self) -> None:
        """Forget the folder's execution providers: the model runs on the CPU unless others are appended."""
        self._change_providers(())

    def append_provider(self, name: str) -> None:
        """Add an execution provider after those there are. Adding one that is there changes nothing."""
        if not name:
            raise OptionError("an execution provider needs a name, got ''")
        if not any(_same(p.name, name) for p in self._current()):
            self._change_providers((*self._current(), ProviderSpec(name)))

    def set_provider_option(self, provider: str, key: str, value: str) -> None:
        """Set an option of an execution provider, which is appended if it is not there."""
        self.append_provider(provider)
        self._change_providers(
            tuple(
                ProviderSpec(p.name, {**p.options, key: str(value)}) if _same(p.name, provider) else p
                for p in self._current()
            )
        )

    def add_model_data(self, filename: str, data: bytes | bytearray | memoryview | npt.NDArray[Any]) -> None:
        """Take an ONNX file's content from memory instead of from the folder.

        Args:
            filename: The file's name, as the folder's metadata has it.
            data: The content; an array must be one-dimensional uint8. It is copied.

        Raises:
            OptionError: ``data`` is empty or not bytes.
        """
        if isinstance(data, np.ndarray) and (data.dtype != np.uint8 or data.ndim != 1):
            raise OptionError(
                f"the content of {filename} must be bytes or a one-dimensional uint8 array, got {data.dtype} "
                f"with {data.ndim} dimensions"
            )
        content = bytes(data)
        if not content:
            raise OptionError(f"the content of {filename} is empty")
        self._change_model_data({**self._model_data, filename: content})

    def remove_model_data(self, filename: str) -> None:
        """Take an ONNX file from the folder again.

        Raises:
            OptionError: Nothing was added under this name.
        """
        if filename not in self._model_data:
            known = ", ".join(sorted(self._model_data)) or "none"
            raise OptionError(f"no content was added for {filename!r}; added: {known}")
        self._change_model_data({k: v for k, v in self._model_data.items() if k != filename})

    def set_decoder_provider_options_hardware_device_type(self, provider: str, device_type: str) -> None:
        """Not supported: raises `CapabilityError`."""
        raise _no_filter(provider, "hardware_device_type", device_type)

    def set_decoder_provider_options_hardware_device_id(self, provider: str, device_id: int) -> None:
        """Not supported: raises `CapabilityError`."""
        raise _no_filter(provider, "hardware_device_id", device_id)

    def set_decoder_provider_options_hardware_vendor_id(self, provider: str, vendor_id: int) -> None:
        """Not supported: raises `CapabilityError`."""
        raise _no_filter(provider, "hardware_vendor_id", vendor_id)

    def clear_decoder_provider_options_hardware_device_type(self, provider: str) -> None:
        """Nothing to clear: no such filter can be set."""

    def clear_decoder_provider_options_hardware_device_id(self, provider: str) -> None:
        """Nothing to clear: no such filter can be set."""

    def clear_decoder_provider_options_hardware_vendor_id(self, provider: str) -> None:
        """Nothing to clear: no such filter can be set."""

    def _current(self) -> Sequence[ProviderSpec]:
        return self.spec.decoder.providers if self._providers is None else self._providers

    def _change_providers(self, providers: tuple[ProviderSpec, ...]) -> None:
        self._providers = providers
        self._reload()

    def _change_model_data(self, model_data: dict[str, bytes]) -> None:
        before, self._model_data = self._model_data, model_data
        try:
            self._reload()
        except BaseException:
            self._model_data = before
            raise

    def _reload(self) -> None:
        try:
            self._spec = self._load()
        except MetadataError:
            raise
        except ModelFileError:
            self._spec = None  # the ONNX file may still be given with add_model_data

    def _load(self) -> ModelSpec:
        from onnxgen.metadata import load_model_spec

        return load_model_spec(
            self._folder, overlays=self._overlays, model_data=self._model_data, providers=self._providers
        )


def _same(name: str, other: str) -> bool:
    return name.lower().removesuffix("executionprovider") == other.lower().removesuffix("executionprovider")


def _no_filter(provider: str, what: str, value: object) -> CapabilityError:
    return CapabilityError(
        f"cannot choose a device of provider {provider!r} by {what}={value!r}: filters over plug-in devices are "
        "not supported; choose the device with the provider's own options (set_provider_option)"
    )
