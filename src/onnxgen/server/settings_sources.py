"""`read_settings`: flags over ``ONNXGEN_SERVE_*`` variables over the table ``[serve]`` of the configuration file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from onnxgen.errors import ConfigError
from onnxgen.foundations.config_sources import SERVE_PREFIX, SERVE_TABLE, config_file_of, read_config_file
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.server.settings import ServerSettings, Texts

FIELDS = ServerSettings.model_fields


def read_settings(
    flags: Mapping[str, Any],
    *,
    environ: Mapping[str, str] = os.environ,
    config_file: Path | None = None,
) -> ServerSettings:
    """Join all sources.

    Args:
        flags: Field name to value, of those that were given.
        environ: The environment. Empty variables count as not set; lists are separated by commas.
        config_file: The configuration file; None looks where `load_runtime_config` looks.

    Raises:
        ConfigError: An unknown name or a wrong value; the message names the source.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    file = config_file_of(config_file, environ)
    table: Any = {} if file is None else read_config_file(file).get(SERVE_TABLE, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: serve is {table!r:.60}; a table [serve] was expected")
    sources = [
        *((name, value, f"{file}: serve.{name}") for name, value in table.items()),
        *_variables(environ),
        *((name, value, flag_of(name)) for name, value in flags.items()),
    ]
    for name, value, origin in sources:
        if name not in FIELDS:
            raise ConfigError(f"{origin}: there is no setting {name!r}{did_you_mean(name, FIELDS)}")
        values[name], origins[name] = value, origin
    try:
        return ServerSettings(**values)
    except ValidationError as cause:
        first = cause.errors(include_url=False)[0]
        name = str(first["loc"][0])
        raise ConfigError(f"{origins[name]} is {values[name]!r:.80}: {first['msg']}") from cause


def variable_of(name: str) -> str:
    """The environment variable of a field."""
    return SERVE_PREFIX + name.upper()


def flag_of(name: str) -> str:
    """The flag of a field."""
    return "MODEL" if name == "model" else f"--{name.replace('_', '-')}"


def is_list(name: str) -> bool:
    """Whether a field takes several texts."""
    return FIELDS[name].annotation == Texts


def is_switch(name: str) -> bool:
    """Whether a field is on or off."""
    return bool in (FIELDS[name].annotation, *get_args(FIELDS[name].annotation))


def _variables(environ: Mapping[str, str]) -> list[tuple[str, Any, str]]:
    found: list[tuple[str, Any, str]] = []
    for variable in sorted(environ):
        text = environ[variable].strip()
        if not variable.startswith(SERVE_PREFIX) or not text:
            continue
        name = variable.removeprefix(SERVE_PREFIX).lower()
        several = name in FIELDS and is_list(name)
        value = tuple(part.strip() for part in text.split(",") if part.strip()) if several else text
        found.append((name, value, variable))
    return found
