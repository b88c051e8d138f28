"""Where weights come from: `WeightSource`, and weights already held in quantized blocks.

Names are the Hugging Face names of a decoder, whatever the file calls them:
``model.embed_tokens.weight``, ``model.layers.3.self_attn.q_proj.weight``, ``model.norm.weight``,
``lm_head.weight``. Matrices are ``[out_features, in_features]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class BlockQuantized:
    """A matrix ``[out_features, in_features]`` held in blocks along ``in_features``.

    ``value = (code - zero_point) * scale`` for each block of ``block_size`` neighbours in a row. The last
    block of a row is padded with codes at the zero point when ``in_features`` does not divide.
    The layout is that of ``com.microsoft.MatMulNBits``.

    Attributes:
        bits: 4 or 8.
        block_size: 16, 32, 64, 128 or 256.
        in_features: Columns of the matrix before padding.
        codes: uint8 ``[out_features, blocks, block_size * bits / 8]``; with 4 bits the even column is in
            the low nibble.
        scales: float32 ``[out_features, blocks]``.
        zero_points: None for the symmetric form (zero point 8 or 128), uint8
            ``[out_features, ceil(blocks * bits / 8)]`` packed like the codes, or float32
            ``[out_features, blocks]`` (4 bits only).
    """

    bits: int
    block_size: int
    in_features: int
    codes: npt.NDArray[np.uint8]
    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None


class WeightSource(Protocol):
    """A checkpoint, read tensor by tensor."""

    @property
    def path(self) -> Path:
        """The checkpoint's folder or file, for messages."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's configuration with the keys of a Hugging Face ``config.json``.

        ``architectures`` holds the class name that builder families are registered by.
        """
        ...

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """All keys and values of a GGUF file, which tokenizer files are made from.

        None for a folder, which has those files of its own.
        """
        ...

    @property
    def names(self) -> AbstractSet[str]:
        """Names of all tensors."""
        ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, without reading it."""
        ...

    def stored_type(self, name: str) -> str:
        """What the checkpoint calls the type a tensor is stored in: ``BF16``, ``F32``, ``Q4_K``."""
        ...

    def load(self, name: str) -> npt.NDArray[Any]:
        """Read a tensor as it is stored (float32, float16 or bfloat16), dequantized to float32 if it is not.

        The array is the caller's to keep; nothing of it stays in memory here.

        Raises:
            CheckpointError: The tensor is missing or its bytes are.
        """
        ...

    def load_blocks(self, name: str) -> BlockQuantized | None:
        """Read a tensor in the quantized blocks it is stored in, if `BlockQuantized` can hold them exactly."""
        ...

    def close(self) -> None:
        """Release files. Calling it twice is harmless."""
        ...
