"""``onnxgen_build.json`` of our own folders: facts that ``genai_config.json`` has no key for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxgen.errors import MetadataError, ModelFileError
from onnxgen.foundations.files import is_present, read_json_object

MANIFEST = "onnxgen_build.json"
_SWITCH = "rope_switch_length"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty where there is none that can be read, for a model runs without it."""
    try:
        return read_json_object(folder / MANIFEST)
    except ModelFileError:
        return {}


def rope_switch_length(folder: Path, *, otherwise: int | None) -> int | None:
    """The manifest's ``rope_switch_length``: a number of tokens, or null for a model without a switch.

    Args:
        folder: A model folder.
        otherwise: The answer where there is no manifest, or it does not say.

    Raises:
        MetadataError: The manifest is broken.
    """
    path = folder / MANIFEST
    if not is_present(path):
        return otherwise
    length = read_json_object(path, error=MetadataError).get(_SWITCH, otherwise)
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
        raise MetadataError(f"{path}: {_SWITCH} is {length!r}; it must be a number of tokens, or null")
    return length
