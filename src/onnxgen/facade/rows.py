"""`Row`: one row of a `Generator` as its user sees it, with padding and end-of-sequence tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.engine.tokens import TokenBuffer
from onnxgen.errors import CapabilityError, OptionError, TokenIdError
from onnxgen.facade.tensor import Tensor

Int64Array = npt.NDArray[np.int64]

_MOST = np.iinfo(np.int64).max


class Row:
    """One row: what its user sees, and which part of that the model processes.

    ::

        seen       [ p0 p1 p2 pad pad | t0 t1 t2 eos pad pad ]
        processed  [ p0 p1 p2         | t0 t1 t2 ]
    """

    __slots__ = ("_prompt", "_seen", "_unpadded", "eos_at")

    def __init__(self) -> None:
        self._seen = TokenBuffer()
        self._prompt = 0
        self._unpadded = 0
        # where the end-of-sequence token is, or would be
        self.eos_at: int | None = None

    @property
    def length(self) -> int:
        """Number of tokens that the user sees."""
        return len(self._seen)

    @property
    def num_processed(self) -> int:
        """Number of tokens that the model processes."""
        seen = self.length if self.eos_at is None else min(self.eos_at, self.length)
        if seen < self._prompt:
            return min(seen, self._unpadded)
        return self._unpadded + seen - self._prompt

    def view(self) -> Int64Array:
        """The tokens that the user sees; valid until the row changes."""
        return self._seen.view()

    def append(self, ids: Int64Array, *, pad: int | None) -> Row:
        """A new row with a prompt at its end. Trailing ``pad`` tokens of it are not processed."""
        other = Row()
        other._seen.extend(self.view())
        other._seen.extend(ids)
        kept = len(ids)
        while pad is not None and kept > 1 and ids[kept - 1] == pad:
            kept -= 1
        # only the first prompt of a row may have padding, so what was there before was processed as it is
        other._prompt = other.length
        other._unpadded = self.length + kept
        return other

    def copy(self) -> Row:
        """Another row like this."""
        other = Row()
        other._seen = self._seen.copy()
        other._prompt, other._unpadded, other.eos_at = self._prompt, self._unpadded, self.eos_at
        return other

    def processed(self, before: Row) -> Int64Array:
        """What the model must still process if it has processed ``before``."""
        return self.view()[before.num_processed : self._unpadded]

    def add(self, token: int) -> None:
        """Append a generated token."""
        self._seen.append(token)

    def finish(self) -> None:
        """The next token ends the row."""
        self.eos_at = self.length

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` tokens. A row whose end is cut off is unfinished again."""
        if self.eos_at is not None and self.eos_at >= length:
            self.eos_at = None
        self._seen.truncate(length)
        if length < self._prompt:
            self._unpadded = min(length, self._unpadded)
            self._prompt = length


def split_rows(tokens: npt.ArrayLike | Tensor, num_rows: int) -> Int64Array:
    """Tokens as int64 ``[num_rows, n]``.

    Raises:
        OptionError: There are none, or they do not divide into rows.
        TokenIdError: They are no integers.
    """
    try:
        array: npt.NDArray[Any] = np.asarray(tokens)
    except ValueError as cause:
        raise OptionError(
            "rows of tokens must be equally long; pad the shorter ones at their beginning, as Tokenizer.encode_batch does"
        ) from cause
    if array.size == 0:
        raise OptionError("no tokens were given; there is nothing to append")
    if array.dtype.kind not in "iu":
        raise TokenIdError(f"token ids must be integers, got {tokens!r:.60}")
    if array.ndim > 2 or array.ndim == 0:
        raise OptionError(f"tokens must be [n] or [batch_size, n], got shape {array.shape}")
    if (array.shape[0] != num_rows) if array.ndim == 2 else (array.size % num_rows):
        raise OptionError(
            f"tokens of shape {array.shape} do not divide into the {num_rows} rows that batch_size asks for"
        )
    if int(array.max()) > _MOST:  # as int64 it would be another id
        raise TokenIdError(f"token id {int(array.max())} is no id of any vocabulary")
    return array.reshape(num_rows, -1).astype(np.int64)


def split_prompt(
    inputs: Mapping[str, Any], num_rows: int, width: int | None
) -> tuple[Int64Array, npt.NDArray[np.float32] | None]:
    """Ids and embeddings of a prompt by their names; ids are zeros where there are embeddings only.

    Raises:
        CapabilityError: There are other inputs, or none of these two, or the model takes no embeddings.
        OptionError: Their shapes do not fit.
    """
    others = sorted(set(inputs) - {"input_ids", "inputs_embeds"})
    if others or not inputs:
        raise CapabilityError(
            f"inputs {others or 'without input_ids or inputs_embeds'} cannot be given to a text model"
        )
    if "inputs_embeds" not in inputs:
        return split_rows(inputs["input_ids"], num_rows), None
    embeds = split_embeds(inputs["inputs_embeds"], num_rows, width)
    ids = np.zeros(embeds.shape[:2], np.int64)
    return split_rows(inputs["input_ids"], num_rows) if "input_ids" in inputs else ids, embeds


def split_embeds(embeds: npt.ArrayLike | Tensor, num_rows: int, width: int | None) -> npt.NDArray[np.float32]:
    """Embeddings as float32 ``[num_rows, n, width]``.

    Raises:
        CapabilityError: The model takes none.
        OptionError: There are none, they are no finite numbers, or their shape does not fit.
    """
    if width is None:
        raise CapabilityError("this model takes no embeddings: it does not look tokens up in one table")
    array: npt.NDArray[Any] = np.asarray(embeds)
    if array.ndim == 2 and num_rows == 1:
        array = array[None]
    if array.ndim != 3 or array.shape[0] != num_rows or not array.size or array.shape[2] != width:
        raise OptionError(
            f"embeddings must be [{num_rows}, n, {width}] for batch_size {num_rows}, got shape {array.shape}"
        )
    found = array.astype(np.float32)
    if not np.isfinite(found).all():
        raise OptionError("embeddings hold infinities or NaN")
    return found
