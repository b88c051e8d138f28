"""Tokens that end an answer, from all files of a folder that name some.

Files disagree: a configuration often names only the token that ends a text, and a chat model ends its
turns with another one, which is in ``generation_config.json``, is the tokenizer's, or is only seen in the
chat template. An answer that misses its end never stops.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from onnxgen.errors import MetadataError, ModelFileError
from onnxgen.foundations.files import is_present, read_json_object, read_text

TURN_ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|END_OF_TURN_TOKEN|>",
    "<seed:eos>",
    "<|return|>",
    "<|call|>",
)
"""Tokens that end turns in the chat formats of published models."""

_CHANNEL = "<|channel|>"  # where there are channels, <|end|> ends a message of several in a turn


def folder_end_ids(
    folder: Path, *, vocab_size: int | None = None, error: type[ModelFileError] = MetadataError
) -> tuple[int, ...]:
    """Ids that end an answer by any file beside the model's own metadata; empty where no file says anything.

    Read are ``generation_config.json`` and ``config.json`` (``eos_token_id``, also of the decoder inside),
    the tokenizer's ``eos_token``, and the tokens in the chat template that are known to end turns.

    Args:
        folder: A model folder, or a checkpoint.
        vocab_size: Tokens of the model; other ids are left out.
        error: Raised for a file that is there and cannot be read.

    Raises:
        ModelFileError: (as ``error``) a file cannot be read.
    """
    settings = _object(folder / "tokenizer_config.json", error)
    ids = [
        token_id
        for name in ("generation_config.json", "config.json")
        for token_id in _configured(_object(folder / name, error))
    ]
    names = [*_named_end(settings), *turn_ends("\n".join(_templates(folder, settings, error)))]
    ids += _ids_of(names, folder, settings, error)
    return tuple(i for i in dict.fromkeys(ids) if i >= 0 and (vocab_size is None or i < vocab_size))


def turn_ends(template: str) -> list[str]:
    """Tokens in a chat template that end turns."""
    found = [token for token in TURN_ENDS if token in template]
    return [token for token in found if token != "<|end|>" or _CHANNEL not in template]


def _configured(config: Mapping[str, Any]) -> Iterator[int]:
    for place in (config, config.get("text_config")):
        value: Any = (
            cast("Mapping[str, Any]", place).get("eos_token_id") if isinstance(place, Mapping) else None
        )
        for item in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if isinstance(item, int) and not isinstance(item, bool):
                yield item


def _named_end(settings: Mapping[str, Any]) -> list[str]:
    value = settings.get("eos_token")
    if isinstance(value, Mapping):
        value = cast("Mapping[str, Any]", value).get("content")
    return [value] if isinstance(value, str) else []


def _templates(folder: Path, settings: Mapping[str, Any], error: type[ModelFileError]) -> Iterator[str]:
    path = folder / "chat_template.jinja"
    if is_present(path):
        yield read_text(path, error=error)
        return
    for document in (_object(folder / "chat_template.json", error), settings):
        value = document.get("chat_template")
        entries = cast("list[Any]", value) if isinstance(value, list) else [{"template": value}]
        for entry in entries:
            text: Any = (
                cast("Mapping[str, Any]", entry).get("template") if isinstance(entry, Mapping) else None
            )
            if isinstance(text, str):
                yield text


def _ids_of(
    names: Iterable[str], folder: Path, settings: Mapping[str, Any], error: type[ModelFileError]
) -> Iterator[int]:
    listed = _listed(settings)
    missing = [name for name in dict.fromkeys(names) if name not in listed]
    path = folder / "tokenizer.json"
    found = _search(read_text(path, error=error), missing) if missing and is_present(path) else {}
    for name in names:
        token_id = listed.get(name, found.get(name))
        if token_id is not None:
            yield token_id


def _listed(settings: Mapping[str, Any]) -> dict[str, int]:
    decoder = settings.get("added_tokens_decoder")
    result: dict[str, int] = {}
    for key, entry in cast("Mapping[str, Any]", decoder).items() if isinstance(decoder, Mapping) else ():
        content = cast("Mapping[str, Any]", entry).get("content") if isinstance(entry, Mapping) else None
        if isinstance(content, str) and key.isdecimal():
            result[content] = int(key)
    return result


def _search(document: str, names: Iterable[str]) -> dict[str, int]:
    """Ids of added tokens in the text of a ``tokenizer.json``, which takes long to parse for a few of them."""
    result: dict[str, int] = {}
    for name in names:
        spellings = {json.dumps(name), json.dumps(name, ensure_ascii=False)}
        content = "|".join(map(re.escape, sorted(spellings)))
        match = re.search(rf'"id"\s*:\s*(\d+)\s*,\s*"content"\s*:\s*(?:{content})', document)
        if match:
            result[name] = int(match[1])
    return result


def _object(path: Path, error: type[ModelFileError]) -> Mapping[str, Any]:
    return read_json_object(path, error=error) if is_present(path) else {}
