"""``onnxgen_build.json``: what a model folder was made from and how, with the hash of every file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxgen.builder.formats import count_float_zero_points
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.spec import DecoderSpec


def manifest(
    folder: Path,
    spec: DecoderSpec,
    options: BuildOptions,
    *,
    accuracy_level: int | None,
    source: str,
    formats: Mapping[str, int],
    tied: bool,
    version: str,
) -> dict[str, Any]:
    """The content of the manifest of a folder whose other files are all written.

    Args:
        folder: The model folder.
        spec: What its decoder computes.
        options: What was asked for.
        accuracy_level: Of its quantized matrices; None where it has none.
        source: Name of the checkpoint.
        formats: Storage formats to numbers of matrices.
        tied: Whether the head is the embedding.
        version: Version of the builder.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "format": 1,
        "builder": {"name": "onnxgen", "version": version},
        "source": {"name": source, "architecture": spec.architecture},
        "options": options.to_json(),
        "accuracy_level": accuracy_level,
        "tied_embeddings": tied,
        "rope_switch_length": spec.rope_switch_length,
        "formats": dict(sorted(formats.items())),
        "float_zero_points": count_float_zero_points(formats),
        "files": [
            {
                "name": path.relative_to(folder).as_posix(),
                "size_bytes": path.stat().st_size,
                "sha256": _sha256(path),
            }
            for path in files
        ],
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
