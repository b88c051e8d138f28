"""Loads ``tokenizer.json``, and says what is wrong where that does not work."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgen.errors import TokenizerError
from onnxgen.foundations.files import check_file, is_present, read_json

if TYPE_CHECKING:
    import tokenizers


def load_tokenizer_file(folder: Path) -> tokenizers.Tokenizer:
    """Load the ``tokenizer.json`` of a folder.

    Raises:
        TokenizerError: It is missing, broken or of an unknown kind.
    """
    path = folder / "tokenizer.json"
    if not is_present(path):
        raise TokenizerError(_missing_message(folder))
    return _load(check_file(path, error=TokenizerError))


def _load(path: Path) -> tokenizers.Tokenizer:
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_buffer(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except OSError as cause:
        raise TokenizerError(f"{path} cannot be read: {cause}") from cause
    except Exception as cause:
        read_json(path, error=TokenizerError)  # says where, if it is not JSON at all
        raise TokenizerError(
            f"{path} is JSON, but not a tokenizer this version can read (tokenizers {tokenizers.__version__}): {cause}; "
            "fetch it again, or upgrade the tokenizers package"
        ) from cause


def _missing_message(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a folder, so there is no tokenizer.json in it"
    found = sorted(
        name
        for name in ("tokenizer.model", "spiece.model", "vocab.json", "tekken.json")
        if (folder / name).exists()
    )
    if not found:
        return f"{folder} has no tokenizer.json; copy the one of the original model into it"
    return (
        f"{folder} has {', '.join(found)}, but no tokenizer.json; convert it once where transformers is installed: "
        f"AutoTokenizer.from_pretrained({str(folder)!r}).save_pretrained({str(folder)!r})"
    )
