"""`simplified_decoder`: decoders of ``tokenizer.json`` that say in many steps what byte-level decoding says in one.

Tokenizers that were converted from GGUF files have such ones: byte fallback, fusing and a replacement of ``▁`` before the
byte-level decoder. As it is written, its last step needs the whole text: one character outside of the alphabet of bytes, in
any token, changes how all of it is read. Where the vocabulary has no such token, the steps before do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from onnxgen.preprocess.byte_alphabet import BYTE_OF_CHARACTER

BYTE_TOKEN = re.compile(r"<0x(\+[0-9a-fA-F]|[0-9a-fA-F]{2})>")
"""A token of byte fallback; the library reads a sign as well."""

_BYTE_LEVEL: Mapping[str, Any] = {"type": "ByteLevel"}


def decoder_steps(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The decoders of a ``decoder`` section in their order, sequences within sequences too."""
    if spec["type"] != "Sequence":
        return [spec]
    parts = cast("list[Mapping[str, Any]]", spec["decoders"])
    return [step for part in parts for step in decoder_steps(part)]


def simplified_decoder(
    spec: Mapping[str, Any] | None, vocabulary: Callable[[], Iterable[str]]
) -> Mapping[str, Any] | None:
    """The same decoder as one step, if it is byte-level decoding for this vocabulary; otherwise as it is.

    Args:
        spec: The ``decoder`` section of ``tokenizer.json``.
        vocabulary: Gives all tokens that the text may have, added ones too. Asked only if the steps allow it.
    """
    if spec is None or spec["type"] != "Sequence":
        return spec
    *before, last = decoder_steps(spec) or [spec]
    if last["type"] != "ByteLevel" or not all(_passes_bytes(step) for step in before):
        return spec
    return _BYTE_LEVEL if _is_of_bytes(before, vocabulary()) else spec


def _passes_bytes(step: Mapping[str, Any]) -> bool:
    """Whether a step leaves text of the alphabet of bytes as it is, tokens of byte fallback apart."""
    if step["type"] == "Replace":
        pattern = step["pattern"].get("String")
        return bool(pattern) and not BYTE_OF_CHARACTER.keys() >= set(pattern)
    return step["type"] in ("Fuse", "ByteFallback")


def _is_of_bytes(before: Sequence[Mapping[str, Any]], tokens: Iterable[str]) -> bool:
    falls_back = any(step["type"] == "ByteFallback" for step in before)
    alphabet = BYTE_OF_CHARACTER.keys()
    return all(
        alphabet >= set(token) and not (falls_back and BYTE_TOKEN.fullmatch(token)) for token in tokens
    )
