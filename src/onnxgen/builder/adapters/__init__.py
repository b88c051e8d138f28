"""Adapters on disk: PEFT folders and files of safetensors, and adapter files of ONNX Runtime.

Knows files and what their authors meant by them; knows nothing of graphs, backends or requests.
"""

from __future__ import annotations

from pathlib import Path

from onnxgen.backends.adapters import Adapter
from onnxgen.errors import CheckpointError, ModelNotFoundError

__all__ = ["read_adapter"]

ORT_SUFFIX = ".onnx_adapter"


def read_adapter(path: Path, name: str) -> Adapter:
    """Read an adapter.

    Args:
        path: A PEFT folder (``adapter_config.json`` and ``adapter_model.safetensors``), either of its two files, or an
            ``.onnx_adapter`` file.
        name: What it will be called.

    Raises:
        ModelNotFoundError: Nothing is there.
        CheckpointError: It is no adapter, or a broken one.
        CapabilityError: It changes the model in a way that is not supported.
    """
    from onnxgen.builder.adapters import ort_file, peft

    if not path.exists():
        raise ModelNotFoundError(
            f"{path} does not exist; expected a PEFT folder or a file {ORT_SUFFIX} with an adapter"
        )
    if path.is_dir():
        files = sorted(path.glob(f"*{ORT_SUFFIX}"))
        if not (path / peft.CONFIG).exists() and len(files) == 1:
            return ort_file.read_ort_adapter(files[0], name)
        return peft.read_peft_adapter(path, name)
    if path.name in (peft.CONFIG, peft.WEIGHTS):
        return peft.read_peft_adapter(path.parent, name)
    if path.suffix == ".safetensors":
        return peft.read_peft_adapter(path.parent, name, weights=path.name)
    if path.suffix in (".bin", ".pt", ".pth"):
        raise CheckpointError(
            f"{path} is a pickle, which may run code when it is read; save the adapter as {peft.WEIGHTS}"
        )
    return ort_file.read_ort_adapter(path, name)
