"""Checkpoints behind one protocol: a Hugging Face folder of safetensors, or a GGUF file.

Knows files and names; knows nothing of what the weights compute.
"""

from __future__ import annotations

from pathlib import Path

from onnxgen.builder.weights import WeightSource
from onnxgen.errors import CheckpointError, ModelNotFoundError
from onnxgen.foundations.files import is_present
from onnxgen.metadata.folder import is_model_folder

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
    if not path.is_dir():
        raise CheckpointError(f"{path} is neither a file nor a folder")
    if not is_present(path / "config.json"):
        found = sorted(path.glob("*.gguf"))
        if len(found) == 1:
            return _open_file(found[0])
        if found:
            names = ", ".join(file.name for file in found)
            raise CheckpointError(f"{path} holds {len(found)} GGUF files; name one of them: {names}")
        raise CheckpointError(_no_checkpoint(path))
    from onnxgen.builder.sources.safetensors_folder import SafetensorsFolder

    return SafetensorsFolder(path)


def _open_file(path: Path) -> WeightSource:
    if path.suffix in (".safetensors", ".json", ".bin", ".pt", ".pth"):
        raise CheckpointError(f"{path} is one file of a checkpoint; name the folder it is in: {path.parent}")
    if path.suffix == ".onnx":
        raise CheckpointError(
            f"{path} is a graph, not a checkpoint; a model folder is named as a whole, and a build needs the weights "
            "that the graph was made from"
        )
    from onnxgen.builder.sources.gguf_source import GgufSource

    return GgufSource(path)


def _no_checkpoint(folder: Path) -> str:
    if is_model_folder(folder):
        return (
            f"{folder} is a model folder, which is built already; a build needs the checkpoint it came from"
        )
    return f"{folder} is no checkpoint: it has neither a config.json (with safetensors) nor a GGUF file"
