"""What ``tokenizer_config.json`` and ``special_tokens_map.json`` say beside the tokenizer itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from onnxgen.errors import ModelFileError, TokenizerError
from onnxgen.foundations.files import is_present, read_json_object

SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


@dataclass(frozen=True, slots=True)
class TokenizerSettings:
    """Settings of a tokenizer folder that ``tokenizer.json`` has no room for.

    Attributes:
        special_tokens: Text of the named special tokens (``bos_token``, ``eos_token``, ...) that the folder names.
        add_bos: ``add_bos_token`` as written, None when the folder does not say.
        add_eos: ``add_eos_token`` as written, None when the folder does not say.
    """

    special_tokens: Mapping[str, str] = field(default_factory=dict[str, str])
    add_bos: bool | None = None
    add_eos: bool | None = None


def read_tokenizer_settings(
    folder: Path, *, error: type[ModelFileError] = TokenizerError
) -> TokenizerSettings:
    """Read the two optional files of a folder; what neither says stays unset.

    Raises:
        TokenizerError: (or ``error``) when one of them is there and cannot be read.
    """
    config = read_object(folder / "tokenizer_config.json", error=error)
    token_map = read_object(folder / "special_tokens_map.json", error=error)
    special_tokens: dict[str, str] = {}
    for name in SPECIAL_TOKEN_NAMES:
        text = _token_text(config.get(name))
        if text is None and name not in config:
            text = _token_text(token_map.get(name))
        if text is not None:
            special_tokens[name] = text
    return TokenizerSettings(
        special_tokens=special_tokens,
        add_bos=_flag(config.get("add_bos_token")),
        add_eos=_flag(config.get("add_eos_token")),
    )


def read_object(path: Path, *, error: type[ModelFileError]) -> dict[str, Any]:
    """Read an optional JSON file that holds an object; an absent file is an empty one.

    Raises:
        ModelFileError: (as ``error``) when the file is there and holds anything else.
    """
    return read_json_object(path, error=error) if is_present(path) else {}


def _token_text(value: Any) -> str | None:
    # Files write a token as text or as the fields of an added token.
    if isinstance(value, dict):
        value = cast("dict[str, Any]", value).get("content")
    return value if isinstance(value, str) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
