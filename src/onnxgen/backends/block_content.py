"""Content of a cache block as bytes, for when it leaves a cache.

[ part 0 | part 1 | ... | number of tokens, kind ]      the last two are int64
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.backends.base import FULL, CacheGeometry
from onnxgen.errors import StepError

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_TRAILER_BYTES = 16


def join_parts(parts: Sequence[Array], *, num_tokens: int, long: bool = False) -> Bytes:
    """Arrays as one row of bytes: a copy.

    Args:
        parts: Arrays of any shape and type.
        num_tokens: Positions that they are of.
        long: Whether these were made with the rotary tables of long sequences.
    """
    rows = [np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in parts]
    return np.concatenate([*rows, np.array([num_tokens, long], np.int64).view(np.uint8)])


def split_parts(content: Bytes, parts: Sequence[Array], *, num_tokens: int) -> bool:
    """Write what `join_parts` made to arrays of the same shapes and types; returns its ``long``.

    Raises:
        StepError: It is of other sizes or of another number of tokens. Nothing was written.
    """
    size = sum(part.nbytes for part in parts) + _TRAILER_BYTES
    if content.dtype != np.uint8 or content.shape != (size,):
        raise StepError(
            f"the content of {num_tokens} tokens has {size} bytes, got {content.dtype} of shape {content.shape}"
        )
    held, long = content[-_TRAILER_BYTES:].copy().view(np.int64).tolist()
    if held != num_tokens:
        raise StepError(f"the content is of {held} tokens, not of {num_tokens}")
    at = 0
    for part in parts:
        part[...] = content[at : at + part.nbytes].view(part.dtype).reshape(part.shape)
        at += part.nbytes
    return bool(long)


def check_block(geometry: CacheGeometry, block: int, num_tokens: int, *, group: int = FULL) -> None:
    """Refuse blocks and positions that a cache does not have.

    Raises:
        StepError: Saying which.
    """
    num_blocks = geometry.num_blocks if group == FULL else geometry.window_blocks
    if not 0 <= block < num_blocks:
        raise StepError(f"asked for block {block} of a pool of {num_blocks}")
    if not 0 < num_tokens <= geometry.block_size:
        raise StepError(f"asked for {num_tokens} positions of a block of {geometry.block_size}")


def check_written(block: int, num_tokens: int, *, written: int, whole: bool = False) -> None:
    """Refuse to give what is not there.

    Args:
        block: A block.
        num_tokens: The positions asked for.
        written: Positions that were written.
        whole: The content is a state, which is there after all of them only.

    Raises:
        StepError: With both numbers.
    """
    if num_tokens > written or (whole and num_tokens != written):
        what = "a state after" if whole else "no more than"
        raise StepError(f"asked for {num_tokens} positions of block {block}; it holds {what} {written}")
