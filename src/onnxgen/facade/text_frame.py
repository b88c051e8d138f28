"""`TextFrame`: the special tokens that a tokenizer puts around a text, which stay when the text is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxgen.errors import OptionError

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

_PROBE = "a"


class TextFrame:
    """Encodes texts with the special tokens around them.

    Args:
        tokenizer: Of the model.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        bare = tokenizer.encode(_PROBE)
        framed = tokenizer.encode(_PROBE, add_special_tokens=True)
        extra = len(framed) - len(bare)
        before = next((i for i in range(extra + 1) if framed[i : i + len(bare)] == bare), 0)
        self._begin, self._end = framed[:before], framed[before + len(bare) :]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text.

        Raises:
            OptionError: One of them is no text.
        """
        return self._tokenizer.encode_batch(texts, add_special_tokens=True)

    def cut(self, ids: list[int], limit: int) -> list[int]:
        """The first tokens of an encoded text, so that ``limit`` remain with the special tokens around them.

        Raises:
            OptionError: Not even one token of the text would remain.
        """
        room = limit - len(self._begin) - len(self._end)
        if room < 1:
            raise OptionError(
                f"a text of {limit} tokens has no room beside the {len(self._begin) + len(self._end)} special ones"
            )
        inner = ids[len(self._begin) : len(ids) - len(self._end)]
        return [*self._begin, *inner[:room], *self._end]
