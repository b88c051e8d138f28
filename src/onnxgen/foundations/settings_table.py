"""Every field of `RuntimeConfig`: how it is read from text, and which values it takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class WrongValueError(ValueError):
    """A value does not fit its setting; the message says what the setting takes."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of `RuntimeConfig`.

    Attributes:
        accept: Turns a typed value (from a flag or TOML) into the field's value, or raises
            `WrongValueError` saying what is expected.
        parse: Turns text (from an environment variable) into something ``accept`` takes.
    """

    accept: Callable[[Any], Any]
    parse: Callable[[str], Any] = str.strip


def is_true(text: str) -> bool:
    """Whether the text is one of the usual words for yes."""
    return text.strip().lower() in _TRUE


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise WrongValueError("expected 1 or 0 (true, yes, on or false, no, off)")


def _accept_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError("expected true or false")
    return value


def _parse_int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text.strip()


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WrongValueError("expected a whole number of at least 1")
    return value


def _positive_or_auto(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise WrongValueError("expected a whole number of at least 1, or auto")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise WrongValueError("expected a name")
    return value.strip()


def _one_of(*names: str) -> Callable[[Any], str]:
    def accept(value: Any) -> str:
        name = value.strip().lower() if isinstance(value, str) else None
        if name not in names:
            raise WrongValueError(f"expected one of {', '.join(names)}")
        return name

    return accept


def _log_level(value: Any) -> str:
    level = value.strip().upper() if isinstance(value, str) else None
    if level not in _LOG_LEVELS:
        raise WrongValueError(f"expected one of {', '.join(_LOG_LEVELS)}")
    return level


def _folder(value: Any) -> Path:
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise WrongValueError("expected the path of a folder")
    path = Path(value).expanduser()
    if path.exists() and not path.is_dir():
        raise WrongValueError("expected a folder, found a file there")
    # absolute, so that a later change of the working directory does not move the cache
    return path.absolute()


def _split_names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _names(value: Any) -> tuple[str, ...]:
    names: Any = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)):
        raise WrongValueError("expected a list of names")
    return tuple(_word(name) for name in cast("list[Any]", names))


def _parse_object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as cause:
        raise WrongValueError(f"expected a JSON object ({cause})") from cause


def _provider_options(value: Any) -> dict[str, Mapping[str, str]]:
    expected = 'expected provider to options, such as {"CUDAExecutionProvider": {"device_id": "0"}}'
    if not isinstance(value, Mapping):
        raise WrongValueError(expected)
    options: dict[str, Mapping[str, str]] = {}
    for provider, entries in cast("Mapping[str, Any]", value).items():
        if not isinstance(entries, Mapping):
            raise WrongValueError(f"{expected}; {provider!r} has {entries!r}")
        for key, entry in cast("Mapping[str, Any]", entries).items():
            if isinstance(entry, bool) or not isinstance(entry, (str, int)):
                raise WrongValueError(
                    f"{expected}; write {provider}.{key} as a string, as the provider reads it"
                )
        options[provider] = {key: str(entry) for key, entry in cast("Mapping[str, Any]", entries).items()}
    return options


SETTINGS: Mapping[str, Setting] = {
    "backend": Setting(_word),
    "threads": Setting(_positive_or_auto, _parse_int),
    "inter_op_threads": Setting(_positive_or_auto, _parse_int),
    "spinning": Setting(_accept_bool, _parse_bool),
    "providers": Setting(_names, _split_names),
    "provider_options": Setting(_provider_options, _parse_object),
    "cache_dir": Setting(_folder),
    "prefill_chunk_tokens": Setting(_positive, _parse_int),
    "memory_limit_mb": Setting(_positive_or_auto, _parse_int),
    "kv_cache_dtype": Setting(_one_of("auto", "int8")),
    "offline": Setting(_accept_bool, _parse_bool),
    "log_level": Setting(_log_level),
}
"""Field name to its setting; the same names as the fields of `RuntimeConfig`."""
