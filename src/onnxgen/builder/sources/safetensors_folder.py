"""A Hugging Face folder, ``config.json`` and safetensors, as a `WeightSource`."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from onnxgen.builder.sources.safetensors_header import StoredTensor, read_header
from onnxgen.builder.sources.shards import list_shards
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import CheckpointError
from onnxgen.foundations.files import read_json_object
from onnxgen.foundations.suggest import did_you_mean

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
# A decoder inside a larger model, or saved without its head, has its own names below or without these.
_PREFIXES = (
    ("language_model.model.", "model."),
    ("model.language_model.model.", "model."),
    ("model.language_model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("model.language_model.lm_head.", "lm_head."),
)
_BARE = ("embed_tokens.", "layers.", "norm.")


class SafetensorsFolder:
    """Weights of a Hugging Face folder.

    Headers are kept; each tensor is read when it is asked for, with plain reads (pages of a memory map would
    count as this process's memory).
    """

    def __init__(self, path: Path) -> None:
        """Open a folder.

        Raises:
            CheckpointError: ``config.json`` or a shard is missing, broken or cut off, the shards and their index
                disagree, or the checkpoint is quantized in a way that cannot be read.
        """
        self._path = path
        self._config = _read_config(path)
        shards = list_shards(path)
        stored: dict[str, StoredTensor] = {}
        for shard in shards.files:
            for name, tensor in read_header(shard).items():
                if name in stored:
                    raise CheckpointError(f"tensor {name!r} is in both {stored[name].file} and {shard}")
                stored[name] = tensor
        for name, shard in shards.index.items():
            if name not in stored or stored[name].file != shard:
                raise CheckpointError(
                    f"{path}: the index says tensor {name!r} is in {shard.name}, but it is not; "
                    "the download is incomplete or mixes versions, fetch it again"
                )
        self._tensors = _canonical_names(stored, path)

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def config(self) -> Mapping[str, Any]:
        """The content of ``config.json``."""
        return self._config

    @property
    def metadata(self) -> None:
        """None: tokenizer files lie in the folder."""
        return None

    @property
    def names(self) -> AbstractSet[str]:
        """Names of all tensors; those of a decoder inside a larger model as if it were alone."""
        return self._tensors.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, outermost dimension first."""
        return self._tensor(name).shape

    def stored_type(self, name: str) -> str:
        """The type a tensor is stored in, such as ``BF16``."""
        return self._tensor(name).dtype

    def load(self, name: str) -> npt.NDArray[Any]:
        """Read a tensor as it is stored: float32, float16 or bfloat16.

        Raises:
            CheckpointError: The tensor is missing, its bytes are, or it is of another type.
        """
        tensor = self._tensor(name)
        dtype = _DTYPES.get(tensor.dtype)
        if dtype is None:
            raise CheckpointError(
                f"{tensor.file}: tensor {name!r} is stored as {tensor.dtype}; weights of types "
                f"{', '.join(_DTYPES)} can be read"
            )
        count = tensor.num_bytes // dtype.itemsize
        try:
            values = np.fromfile(tensor.file, dtype, count=count, offset=tensor.offset)
        except OSError as cause:
            raise CheckpointError(f"{tensor.file}: cannot read tensor {name!r}: {cause}") from cause
        if values.size != count:
            raise CheckpointError(
                f"{tensor.file}: tensor {name!r} has {values.size * dtype.itemsize} bytes, expected "
                f"{tensor.num_bytes}; the file was changed while it was read"
            )
        return values.reshape(tensor.shape)

    def load_blocks(self, name: str) -> BlockQuantized | None:
        """None: safetensors hold floats."""
        self._tensor(name)
        return None

    def close(self) -> None:
        """Nothing is held open between reads."""

    def _tensor(self, name: str) -> StoredTensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise CheckpointError(
                f"{self._path}: no tensor {name!r} among {len(self._tensors)}{did_you_mean(name, self._tensors)}"
            )
        return tensor


def _read_config(path: Path) -> dict[str, Any]:
    config = read_json_object(path / "config.json", error=CheckpointError)
    quantization = config.get("quantization_config")
    if quantization:
        method = quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        raise CheckpointError(
            f"{path} is quantized ({method}), which cannot be read; build from the original checkpoint "
            "or from a GGUF file"
        )
    return config


def _canonical_names(stored: Mapping[str, StoredTensor], path: Path) -> dict[str, StoredTensor]:
    bare = not any(name.startswith(("model.", "language_model.")) for name in stored)
    tensors: dict[str, StoredTensor] = {}
    origin: dict[str, str] = {}
    for name, tensor in stored.items():
        target = _canonical(name, bare=bare)
        if target in tensors:
            raise CheckpointError(f"{path}: tensors {origin[target]!r} and {name!r} are both {target!r}")
        tensors[target], origin[target] = tensor, name
    return tensors


def _canonical(name: str, *, bare: bool) -> str:
    if bare and name.startswith(_BARE):
        return f"model.{name}"
    for prefix, target in _PREFIXES:
        if name.startswith(prefix):
            return target + name.removeprefix(prefix)
    return name
