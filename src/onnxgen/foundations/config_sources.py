"""`RuntimeConfig` from its sources: flags over ``ONNXGEN_*`` variables over a TOML file over defaults.

The TOML file is the one that ``--config`` or ``ONNXGEN_CONFIG`` names, else ``config.toml`` in the
user's configuration folder if it exists. Its keys are the fields of `RuntimeConfig`::

    threads = 8
    cache_dir = "~/models"
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]

    [provider_options.CUDAExecutionProvider]
    device_id = "0"

A table ``[serve]`` in it, and variables that begin with ``ONNXGEN_SERVE_``, are the server's, which reads them itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.settings_table import SETTINGS, WrongValueError, is_true
from onnxgen.foundations.suggest import did_you_mean

_PREFIX = "ONNXGEN_"
SERVE_PREFIX = "ONNXGEN_SERVE_"
"""How variables of the server begin."""
SERVE_TABLE = "serve"
"""The table of the server in the configuration file."""
_CONFIG_VARIABLE = "ONNXGEN_CONFIG"
# The file, and what holds for the whole process and is read where it acts: instruction set and store of compiled kernels.
_NO_SETTINGS = (_CONFIG_VARIABLE, "ONNXGEN_ISA", "ONNXGEN_KERNEL_CACHE")
_HUB_OFFLINE = "HF_HUB_OFFLINE"
DEFAULT_ORIGIN = "default"


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """A configuration and where each of its values came from.

    Attributes:
        config: The values.
        origins: Field name to its origin: ``"flag --threads"``, ``"ONNXGEN_THREADS"``, the path of the
            TOML file, or ``"default"``.
        config_file: The TOML file that was read; None if there was none.
    """

    config: RuntimeConfig
    origins: Mapping[str, str]
    config_file: Path | None = None


def default_config_file() -> Path:
    """Where the TOML file is looked for when nobody names one."""
    return Path(platformdirs.user_config_dir("onnxgen", appauthor=False)) / "config.toml"


def load_runtime_config(
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    config_file: Path | None = None,
) -> ResolvedConfig:
    """Join all sources into one configuration.

    Args:
        flags: Field name to value as given on the command line; leave out what was not given.
        environ: The environment. Empty variables count as not set.
        config_file: The TOML file; None looks at ``ONNXGEN_CONFIG``, then at `default_config_file`.

    Raises:
        ConfigError: An unknown name or a value of the wrong kind; the message names the source.
    """
    values: dict[str, Any] = {}
    origins = dict.fromkeys(SETTINGS, DEFAULT_ORIGIN)

    def put(name: str, value: Any, origin: str, shown: object) -> None:
        try:
            values[name] = SETTINGS[name].accept(value)
        except WrongValueError as cause:
            raise ConfigError(f"{origin}: {name} is {shown!r}; {cause}") from cause
        origins[name] = origin

    file = config_file_of(config_file, environ)
    for name, value in (read_config_file(file) if file else {}).items():
        if name == SERVE_TABLE:
            continue
        if name not in SETTINGS:
            raise ConfigError(f"{file}: unknown key {name!r}{did_you_mean(name, SETTINGS)}")
        put(name, value, str(file), value)
    if is_true(environ.get(_HUB_OFFLINE, "")):
        put("offline", True, _HUB_OFFLINE, True)
    for variable, text in _variables(environ).items():
        name = variable.removeprefix(_PREFIX).lower()
        try:
            value = SETTINGS[name].parse(text)
        except WrongValueError as cause:
            raise ConfigError(f"{variable} is {text!r}; {cause}") from cause
        put(name, value, variable, text)
    for name, value in (flags or {}).items():
        if name not in SETTINGS:
            raise ConfigError(f"unknown option {name!r}{did_you_mean(name, SETTINGS)}")
        put(name, value, f"flag --{name.replace('_', '-')}", value)
    return ResolvedConfig(RuntimeConfig(**values), origins, file)


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    known = {_PREFIX + name.upper() for name in SETTINGS}
    found: dict[str, str] = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable.startswith(SERVE_PREFIX) or variable in _NO_SETTINGS:
            continue
        if variable not in known:
            hint = did_you_mean(variable, {*known, *_NO_SETTINGS})
            raise ConfigError(f"unknown environment variable {variable}{hint}")
        if environ[variable].strip():
            found[variable] = environ[variable]
    return found


def config_file_of(config_file: Path | None, environ: Mapping[str, str]) -> Path | None:
    """The configuration file that counts: the one that is named, the variable's, or the user's, if there is one.

    Raises:
        ConfigError: The one that is named does not exist.
    """
    named = environ.get(_CONFIG_VARIABLE, "").strip()
    if config_file is not None:
        file, origin = config_file.expanduser(), "flag --config"
    elif named:
        file, origin = Path(named).expanduser(), _CONFIG_VARIABLE
    else:
        file = default_config_file()
        return file if file.is_file() else None
    if not file.is_file():
        raise ConfigError(f"{origin}: there is no file {file}")
    return file


def read_config_file(file: Path) -> dict[str, Any]:
    """What a configuration file says.

    Raises:
        ConfigError: It cannot be read, or is no TOML.
    """
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise ConfigError(f"{file} is not valid TOML: {cause}") from cause
    except OSError as cause:
        raise ConfigError(f"{file} cannot be read: {cause.strerror or cause}") from cause
