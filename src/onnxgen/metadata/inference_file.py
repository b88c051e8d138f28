"""The file of ``inference_metadata``: its document, and the one list in it that is always looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onnxgen.errors import MetadataError
from onnxgen.foundations.files import read_json
from onnxgen.metadata.document import Place, read_array, read_object, read_str
from onnxgen.metadata.yaml_text import read_yaml

_CAPABILITIES = "required_capabilities"


def metadata_document(path: Path) -> dict[str, Any]:
    """The file's content, not yet checked against the schema.

    Raises:
        MetadataError: The file cannot be read or holds no object.
    """
    if path.suffix == ".json":
        document = read_json(path, strict=True, error=MetadataError)
    else:
        document = read_yaml(path)
    return dict(read_object(document, Place(path)))


def required_capabilities(path: Path) -> tuple[str, ...]:
    """The capabilities that a metadata file requires; nothing else in it is looked at.

    Raises:
        MetadataError: The file cannot be read.
    """
    listed = metadata_document(path).get(_CAPABILITIES, [])
    place = Place(path, _CAPABILITIES)
    return tuple(read_str(name, place.item(i)) for i, name in enumerate(read_array(listed, place)))
