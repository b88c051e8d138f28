"""Checkpoints behind one protocol: a Hugging Face folder of safetensors, or a GGUF file.

Knows files and names; knows nothing of what the weights compute.
"""

from __future__ import annotations

from pathlib import Path

from onnxgen.builder.weights import WeightSource
from onnxgen.errors import CheckpointError, ModelNotFoundError

__all__ = ["open_source"]


def open_source(path: Path) -> WeightSource:
    """Open a checkpoint.

    Args:
        path: A folder with ``config.json`` and safetensors, a GGUF file, or a folder that holds one GGUF
            file and no ``config.json``.

    Raises:
        ModelNotFoundError: Nothing is there.
        CheckpointError: What is there is not a checkpoint, or a broken one.
    """
    if not path.exists():
        raise ModelNotFoundError(f"{path} does not exist; expected a Hugging Face folder or a GGUF file")
    if path.is_file():
        return _open_file(path)
    if not (path / "config.json").exists():
        found = sorted(path.glob("*.gguf"))
        if len(found) == 1:
            return _open_file(found[0])
        if found:
            names = ", ".join(file.name for file in found)
            raise CheckpointError(f"{path} holds {len(found)} GGUF files; name one of them: {names}")
    from onnxgen.builder.sources.safetensors_folder import SafetensorsFolder

    return SafetensorsFolder(path)


def _open_file(path: Path) -> WeightSource:
    if path.suffix in (".safetensors", ".json", ".bin", ".pt", ".pth"):
        raise CheckpointError(f"{path} is one file of a checkpoint; name the folder it is in: {path.parent}")
    from onnxgen.builder.sources.gguf_source import GgufSource

    return GgufSource(path)
