"""Tokenizer files of a model folder: copied from a Hugging Face folder, or made from a GGUF's metadata."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from onnxgen.errors import CheckpointError, TokenizerError
from onnxgen.foundations.files import check_file, is_present, read_json_object

logger = logging.getLogger(__name__)

_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
)
_NAMED = ("bos_token", "eos_token", "pad_token", "unk_token")


def copy_tokenizer_files(source: Path, target: Path) -> None:
    """Copy what is there of the files that describe a tokenizer and its use.

    Raises:
        CheckpointError: One is empty, only a pointer to its content, or no JSON object.
        TokenizerError: ``tokenizer.json`` is of an unknown kind.
    """
    for name in _FILES:
        if is_present(source / name):
            path = check_file(source / name, error=CheckpointError)
            if path.suffix == ".json":
                read_json_object(path, error=CheckpointError)
            shutil.copyfile(path, target / name)
    _check_tokenizer(source)
    templates = source / "additional_chat_templates"
    if templates.is_dir():
        shutil.copytree(templates, target / templates.name)


def _check_tokenizer(source: Path) -> None:
    from onnxgen.preprocess.tokenizer import Tokenizer

    try:
        Tokenizer.from_folder(source)
    except TokenizerError as cause:
        if is_present(source / "tokenizer.json"):
            raise
        logger.warning("%s. The model folder is made without one, and takes token ids only", cause)


def make_tokenizer_files(metadata: Mapping[str, Any], target: Path) -> None:
    """Make the files from a GGUF's metadata.

    Raises:
        TokenizerError: The metadata describes no tokenizer, or one of an unknown kind.
    """
    from onnxgen.preprocess.gguf_tokenizer import write_tokenizer_files

    write_tokenizer_files(metadata, target)


def named_tokens(folder: Path) -> dict[str, tuple[str, int]]:
    """Text and id of the named special tokens (``eos_token``) that a folder's tokenizer files tell."""
    settings = _object(folder / "tokenizer_config.json")
    listed = _object(folder / "special_tokens_map.json")
    ids = _added_ids(folder, settings)
    found: dict[str, tuple[str, int]] = {}
    for name in _NAMED:
        text = _text(settings.get(name)) or _text(listed.get(name))
        if text is not None and text in ids:
            found[name] = (text, ids[text])
    return found


def tokenizer_facts(folder: Path) -> dict[str, Any] | None:
    """What ``inference_metadata.yaml`` says of a tokenizer; None where the folder has no ``tokenizer.json``."""
    document = _object(folder / "tokenizer.json")
    if not document:
        return None
    model = _mapping(document.get("model"))
    stages = str(document.get("pre_tokenizer")) + str(document.get("decoder"))
    size = len(model.get("vocab") or ())
    added = [entry["id"] + 1 for entry in _entries(document)]
    artifacts = [name for name in _FILES if name != "generation_config.json" and (folder / name).exists()]
    return {
        "algorithm": str(model.get("type", "unknown")).lower(),
        "artifacts": [{"location": name} for name in artifacts],
        "byte_level": "ByteLevel" in stages,
        "special_tokens": {
            name: {"content": text, "id": id_} for name, (text, id_) in named_tokens(folder).items()
        },
        "vocab_size": max([size, *added]),
    }


def _added_ids(folder: Path, settings: Mapping[str, Any]) -> dict[str, int]:
    document = _object(folder / "tokenizer.json")
    ids = {entry["content"]: int(entry["id"]) for entry in _entries(document)}
    for key, entry in _mapping(settings.get("added_tokens_decoder")).items():
        text = _text(entry)
        if text is not None and key.isdecimal():
            ids.setdefault(text, int(key))
    vocab = _mapping(document.get("model")).get("vocab")
    if isinstance(vocab, Mapping):
        known = cast("Mapping[str, int]", vocab)
        for name in _NAMED:
            text = _text(settings.get(name))
            if text is not None and text in known:
                ids.setdefault(text, int(known[text]))
    return ids


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = document.get("added_tokens")
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, Mapping) and {"id", "content"} <= entry.keys()]


def _object(path: Path) -> Mapping[str, Any]:
    return read_json_object(path, error=CheckpointError) if path.is_file() else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    content = _mapping(value).get("content")
    return content if isinstance(content, str) else None
