"""`TokenBuffer`: the token ids of one sequence, in an array that grows and shrinks at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxgen.engine.embedded_tokens import EmbeddedTokens
from onnxgen.kvcache.base import Tokens

_FIRST_CAPACITY = 64


class TokenBuffer:
    """Token ids of one sequence. Appending costs amortized constant time.

    Attributes:
        embedded: What the model reads in place of the embeddings of some of them; None: nothing.
    """

    __slots__ = ("_data", "_length", "embedded")

    def __init__(self) -> None:
        self._data = np.empty(_FIRST_CAPACITY, np.int64)
        self._length = 0
        self.embedded: EmbeddedTokens | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: slice, /) -> list[int]:
        """Some of the ids, in order."""
        return self._data[: self._length][at].tolist()

    @property
    def last(self) -> int:
        """The last id; there must be one."""
        return int(self._data[self._length - 1])

    def view(self) -> npt.NDArray[np.int64]:
        """The ids, int64 ``[len]``: a view that the next change may invalidate."""
        return self._data[: self._length]

    def view_with(self, ids: Sequence[int]) -> npt.NDArray[np.int64]:
        """The ids, and some more that are not kept, int64 ``[len + more]``: a view that the next change may invalidate."""
        length = self._length
        self.extend(ids)
        self._length = length
        return self._data[: length + len(ids)]

    def extend(self, ids: Sequence[int] | npt.NDArray[np.integer[Any]]) -> None:
        """Append ids."""
        end = self._length + len(ids)
        if end > self._data.shape[0]:
            grown = np.empty(max(end, 2 * self._data.shape[0]), np.int64)
            grown[: self._length] = self._data[: self._length]
            self._data = grown
        self._data[self._length : end] = ids
        self._length = end

    def append(self, token: int) -> None:
        """Append one id: what `extend` does, without an array in between."""
        if self._length == self._data.shape[0]:
            self.extend([token])
            return
        self._data[self._length] = token
        self._length += 1

    def copy(self) -> TokenBuffer:
        """Another buffer with the same ids."""
        other = TokenBuffer()
        other.extend(self.view())
        other.embedded = self.embedded
        return other

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` ids."""
        assert 0 <= length <= self._length
        self._length = length


class TokensAhead:
    """The ids of a sequence, and some that it will get."""

    __slots__ = ("_ahead", "_tokens")

    def __init__(self, tokens: Tokens, ahead: Sequence[int]) -> None:
        self._tokens, self._ahead = tokens, ahead

    def __len__(self) -> int:
        return len(self._tokens) + len(self._ahead)

    def __getitem__(self, at: slice, /) -> list[int]:
        """Some of the ids, in order."""
        start, stop, step = at.indices(len(self))
        assert step == 1
        known = len(self._tokens)
        ahead = self._ahead[max(start - known, 0) : max(stop - known, 0)]
        return [*self._tokens[min(start, known) : min(stop, known)], *ahead]
