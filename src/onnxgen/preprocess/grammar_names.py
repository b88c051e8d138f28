"""Which tokens a grammar has to name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxgen.preprocess.vocabulary import AddedToken


def is_name(token: AddedToken) -> bool:
    """Whether a grammar has to name a token: special tokens, and others that look like ``<...>``.

    A name is a symbol of its own: it is allowed where the grammar says it, and nowhere for its text.
    """
    return token.special or (len(token.text) > 2 and token.text[0] == "<" and token.text[-1] == ">")
