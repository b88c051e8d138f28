"""From the states of a text's tokens to one vector, and what a sentence-transformers folder says about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from onnxgen.errors import ModelFileError, OptionError
from onnxgen.foundations.files import is_present, read_json, read_json_object
from onnxgen.foundations.suggest import did_you_mean

Float32Array = npt.NDArray[np.float32]

Pooling = Literal["mean", "last", "cls"]
"""``mean`` of all tokens' states, or the state of the ``last`` or of the first (``cls``) token."""

_MODULES = "modules.json"
_SENTENCE_CONFIG = "sentence_bert_config.json"
# in the order in which sentence-transformers joins them; a folder that asks for several is refused
_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}


@dataclass(frozen=True, slots=True)
class SentenceConfig:
    """What the files of a sentence-transformers folder say.

    Attributes:
        pooling: How states are pooled; None where no file says so.
        max_length: The longest text, in tokens; None where no file says so.
    """

    pooling: Pooling | None = None
    max_length: int | None = None


def read_sentence_config(folder: Path) -> SentenceConfig:
    """Read ``modules.json``, the pooling module's ``config.json`` and ``sentence_bert_config.json``, where they are.

    Raises:
        ModelFileError: One of them is broken, or asks for a pooling that there is not.
    """
    length: Any = None
    if is_present(folder / _SENTENCE_CONFIG):
        length = read_json_object(folder / _SENTENCE_CONFIG).get("max_seq_length")
    return SentenceConfig(_read_pooling(folder), length if isinstance(length, int) and length > 0 else None)


def check_pooling(pooling: str) -> Pooling | None:
    """A pooling by its name; None for ``auto``.

    Raises:
        OptionError: Naming it and what there is.
    """
    known = ("auto", *get_args(Pooling))
    if pooling not in known:
        raise OptionError(
            f"pooling is {pooling!r}, expected one of {', '.join(known)}{did_you_mean(pooling, known)}"
        )
    return None if pooling == "auto" else cast("Pooling", pooling)


def pool(states: Float32Array, mask: npt.NDArray[np.integer[Any]], pooling: Pooling) -> Float32Array:
    """Pool states float32 ``[batch, seq, dim]`` of tokens (mask 1) among padding (mask 0) to ``[batch, dim]``.

    Every text has at least one token.
    """
    if pooling == "mean":
        sums = np.einsum("bsd,bs->bd", states, mask.astype(np.float32))
        return sums / mask.sum(axis=1, keepdims=True).astype(np.float32)
    first = np.argmax(mask, axis=1)
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return states[np.arange(len(states)), first if pooling == "cls" else last]


def normalized(vectors: Float32Array) -> Float32Array:
    """Vectors of length 1, along the last axis; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def _read_pooling(folder: Path) -> Pooling | None:
    if not is_present(folder / _MODULES):
        return None
    modules = read_json(folder / _MODULES)
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise ModelFileError(f"{folder / _MODULES} holds no list of modules")
    listed = cast("list[dict[str, Any]]", modules)
    module = next((m for m in listed if str(m.get("type")).endswith(".Pooling")), None)
    if module is None:
        return None
    path = folder / str(module.get("path", "")) / "config.json"
    if not is_present(path):
        return "mean"  # what a pooling module does that nothing is said about
    config = read_json_object(path)
    asked = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    unknown = [key for key in asked if key not in _MODES]
    if unknown or len(asked) > 1:
        raise ModelFileError(
            f"{path} asks for {', '.join(asked)}; there is one of {', '.join(_MODES)} at a time: give pooling="
        )
    return _MODES[asked[0]] if asked else "mean"
