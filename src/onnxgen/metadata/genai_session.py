"""Session options of ``genai_config.json`` as backends take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxgen.backends.base import ProviderSpec
from onnxgen.errors import CapabilityError, MetadataError
from onnxgen.foundations.files import confined
from onnxgen.metadata.genai_config_session import SessionOptions


def session_options_of(folder: Path, options: SessionOptions) -> dict[str, Any]:
    """Session options as backends take them.

    Raises:
        MetadataError: A library lies outside of the folder.
    """
    result: dict[str, Any] = options.as_mapping()
    library = options.known.custom_ops_library
    if library is not None:
        # a folder may bring its own library, but not name one elsewhere on the machine
        result["custom_ops_library"] = str(confined(folder, library, error=MetadataError))
    return result


def providers_of(options: SessionOptions, path: Path) -> tuple[ProviderSpec, ...]:
    """Execution providers in order.

    Raises:
        CapabilityError: One is asked for by what devices can do.
    """
    for provider in options.provider_options:
        if provider.device_filtering_options is not None:
            raise CapabilityError(
                f"{path}: device_filtering_options of provider {provider.name!r} are not supported yet; choose the "
                "device with the provider's own options"
            )
    return tuple(ProviderSpec(provider.name, provider.options) for provider in options.provider_options)
