"""Which files make a folder a model folder."""

from __future__ import annotations

from pathlib import Path

from onnxgen.foundations.files import is_present

GENAI_CONFIG = "genai_config.json"
INFERENCE_METADATA = "inference_metadata.yaml"
_INFERENCE_METADATA_NAMES = (INFERENCE_METADATA, "inference_metadata.yml", "inference_metadata.json")


def find_inference_metadata(folder: Path) -> Path | None:
    """The file of ``inference_metadata`` in a folder, or None."""
    return next((folder / name for name in _INFERENCE_METADATA_NAMES if is_present(folder / name)), None)


def is_model_folder(folder: Path) -> bool:
    """Whether a folder says what model it holds; whether that is right is another question."""
    return is_present(folder / GENAI_CONFIG) or find_inference_metadata(folder) is not None
