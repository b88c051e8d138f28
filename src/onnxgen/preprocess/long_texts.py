"""`check_length`: texts that cannot fit are told from others before all of them is tokenized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.errors import ContextLengthError

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

_SHORT = 64 * 1024
"""Characters that are tokenized without a second thought."""


def check_length(text: str, max_tokens: int, *, tokenizer: Tokenizer) -> None:
    """Refuse a text that has more than twice as many tokens as fit; short texts are not looked at.

    A tokenizer takes some hundred bytes for each token, so that a text of 30 MB may take 8 GB. Here it takes one
    piece of the text after the other and stops early. Where pieces are cut, a few more tokens are counted than the
    whole has; hence twice as many.

    Args:
        text: Any text.
        max_tokens: What fits.
        tokenizer: Of the model.

    Raises:
        ContextLengthError: It is far longer.
    """
    size = max(_SHORT, 2 * max_tokens)
    if len(text) <= size:
        return
    found = 0
    for begin in range(0, len(text), size):
        found += len(tokenizer.encode(text[begin : begin + size]))
        if found > 2 * max_tokens:
            raise ContextLengthError(
                f"a prompt of {len(text)} characters has far more than the {max_tokens} tokens that fit the context; shorten the prompt"
            )
