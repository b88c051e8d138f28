"""`read_models`: the models of a server from a TOML file, or from a folder of model folders.

The file has one table for each model, and may begin with a table for all::

    [defaults]
    keep_alive_s = 600

    [[model]]
    id = "chat"
    source = "smollm2"
    aliases = ["gpt-4o-mini"]
    defaults = { temperature = 0.2 }
    engine = { max_seqs = 8, cache_mb = 512 }

Keys are the fields of `ModelEntry`. Paths that do not begin at the root are taken from the file's folder, if they are there.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, cast, get_args

from onnxgen.errors import ConfigError, OnnxgenError
from onnxgen.facade.encoder_graph import find_encoder
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.metadata.folder import is_model_folder
from onnxgen.server.models.entry import ModelEntry, Task

_FIELDS = tuple(f.name for f in fields(ModelEntry))
_TABLES = ("adapters", "defaults", "engine", "runtime")
_SWITCHES = ("preload", "warm_up")
_PATHS = ("source", "draft_model", "chat_template")


def read_models(path: Path) -> tuple[ModelEntry, ...]:
    """The models that a file describes, or that lie in a folder.

    Models of a folder are called as their folders are, ``NAME`` or ``OWNER/NAME``, and loaded when they are asked for.

    Args:
        path: The file or folder.

    Raises:
        ConfigError: It is not there, describes no model, or says something wrong; the message names file, table and key.
    """
    path = path.expanduser()
    return _from_folder(path) if path.is_dir() else _from_file(path)


def checked_entry(where: str, values: Mapping[str, Any], *, folder: Path | None = None) -> ModelEntry:
    """An entry of what somebody wrote.

    Args:
        where: What was written, for messages.
        values: By field.
        folder: Where relative paths may begin.

    Raises:
        ConfigError: A field is unknown, missing or wrong.
    """
    for name in values:
        if name not in _FIELDS:
            raise ConfigError(f"{where}: unknown key {name!r}{did_you_mean(name, _FIELDS)}")
    for name in ("id", "source"):
        if name not in values:
            raise ConfigError(f"{where} lacks {name}")
    taken = {name: _taken(where, name, value) for name, value in values.items()}
    if folder is not None:
        taken |= {name: _placed(taken[name], folder) for name in _PATHS if taken.get(name) is not None}
        taken["adapters"] = {n: _placed(p, folder) for n, p in taken.get("adapters", {}).items()}
    entry = ModelEntry(**taken)
    check_defaults(where, entry.defaults)
    return entry


def check_defaults(where: str, defaults: Mapping[str, Any]) -> None:
    """Refuse generation options that no request could have.

    Raises:
        ConfigError: An option is unknown, or its value out of range.
    """
    try:
        GenerationOptions().with_changes(defaults)
    except (OnnxgenError, TypeError) as cause:
        raise ConfigError(f"{where}: defaults: {cause}") from cause


def _from_folder(path: Path) -> tuple[ModelEntry, ...]:
    found = [
        ModelEntry(child.relative_to(path).as_posix(), str(child), preload=False)
        for child in sorted((*path.glob("*/"), *path.glob("*/*/")))
        if _is_model(child) and not _is_model(child.parent)
    ]
    if not found:
        hint = "; it is a model folder itself: give it as MODEL" if _is_model(path) else ""
        raise ConfigError(f"{path} has no model folders in it{hint}")
    return tuple(found)


def _is_model(folder: Path) -> bool:
    return is_model_folder(folder) or find_encoder(folder) is not None


def _from_file(path: Path) -> tuple[ModelEntry, ...]:
    document = _read(path)
    for name in document:
        if name not in ("defaults", "model"):
            raise ConfigError(
                f"{path}: unknown key {name!r}{did_you_mean(name, ('defaults', 'model'))}; models are tables [[model]]"
            )
    shared: Any = document.get("defaults", {})
    if not isinstance(shared, dict):
        raise ConfigError(f"{path}: defaults is {shared!r:.60}; a table [defaults] was expected")
    tables: Any = document.get("model", [])
    if not isinstance(tables, list) or not tables:
        raise ConfigError(f"{path} describes no model; each one is a table [[model]] with id and source")
    return tuple(
        _entry(path, number, table, cast("dict[str, Any]", shared))
        for number, table in enumerate(cast("list[Any]", tables), start=1)
    )


def _entry(path: Path, number: int, table: object, shared: Mapping[str, Any]) -> ModelEntry:
    where = f"{path}: model {number}"
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is {table!r:.60}; a table was expected")
    own = cast("dict[str, Any]", table)
    if isinstance(own.get("id"), str):
        where = f"{where} ({own['id']})"
    joined = {**shared, **own}
    for name in _TABLES:
        both = shared.get(name), own.get(name)
        if all(isinstance(each, dict) for each in both):
            joined[name] = {**shared[name], **own[name]}
    return checked_entry(where, joined, folder=path.absolute().parent)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise ConfigError(f"{path} is not valid TOML: {cause}") from cause
    except OSError as cause:
        raise ConfigError(f"{path} cannot be read: {cause.strerror or cause}") from cause


def _taken(where: str, name: str, value: Any) -> Any:
    """A value of the kind that its field has.

    Raises:
        ConfigError: It is of another kind.
    """

    def wrong(expected: str) -> ConfigError:
        return ConfigError(f"{where}: {name} is {value!r:.80}; expected {expected}")

    if name in _TABLES:
        if not isinstance(value, Mapping):
            raise wrong("a table")
        if name == "adapters" and not all(
            isinstance(path, str) for path in cast("Mapping[str, Any]", value).values()
        ):
            raise wrong("names and paths")
        return dict(cast("Mapping[str, Any]", value))
    if name in _SWITCHES:
        if not isinstance(value, bool):
            raise wrong("true or false")
        return value
    if name == "aliases":
        names = cast("list[Any]", value) if isinstance(value, list | tuple) else None
        if names is None or not all(_is_name(each) for each in names):
            raise wrong("a list of names")
        return tuple(cast("list[str]", names))
    if name == "keep_alive_s":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise wrong("seconds, at least 0")
        return float(value)
    if name == "task":
        if value not in get_args(Task):
            raise wrong(f"one of {', '.join(get_args(Task))}")
        return value
    if not _is_name(value):
        raise wrong("a text that is not empty")
    return value


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _placed(text: str, folder: Path) -> str:
    """A path from the file's folder, where something is there."""
    path = Path(text).expanduser()
    inside = folder / path
    return (
        str(inside) if not path.is_absolute() and inside.exists() else str(path) if text[:1] == "~" else text
    )
