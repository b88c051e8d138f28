r"""Patterns of RE2, by the library itself: linear time whatever pattern and text are.

Patterns and texts are matched as UTF-8. A text may have bytes that are not (``surrogateescape`` holds them); only ``\C``
matches those.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ep.node import NodeSpec


def compile_pattern(node: NodeSpec, pattern: str, *, longest: bool = False) -> Any:
    """A pattern with ``fullmatch`` and ``finditer`` over what `utf8` gives.

    Args:
        node: For messages.
        pattern: In the syntax of RE2.
        longest: Whether of several matches the longest is taken, not the one that the pattern has first.

    Raises:
        InvalidGraphError: it is no such pattern, or needs more memory than RE2 spends on one.
    """
    try:
        return _compiled(utf8(pattern), longest)
    except ValueError as cause:
        raise InvalidGraphError(f"{node}: pattern {pattern!r} is none of RE2: {cause}") from cause


@lru_cache(maxsize=256)
def _compiled(pattern: bytes, longest: bool) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.longest_match = longest
    try:
        return re2.compile(pattern, options)
    except re2.error as cause:
        raise ValueError(text_of(cause.args[0])) from cause


def utf8(text: str) -> bytes:
    """The bytes of a text, also of one that is not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def text_of(data: bytes) -> str:
    """The text of bytes, which may be not UTF-8."""
    return data.decode("utf-8", "surrogateescape")
