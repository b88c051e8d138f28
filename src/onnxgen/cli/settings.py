"""Global options of one call of the command line, and the runtime configuration they lead to."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from onnxgen.foundations.config_sources import ResolvedConfig


@dataclass(slots=True)
class GlobalOptions:
    """Options that may stand before the command or after it; the later one wins."""

    config_file: Path | None = None
    log_level: str | None = None
    verbose: bool = False


def global_options(ctx: typer.Context) -> GlobalOptions:
    """The global options of this call."""
    return ctx.ensure_object(GlobalOptions)


def load_settings(
    ctx: typer.Context,
    *,
    config_file: Path | None = None,
    log_level: str | None = None,
    verbose: bool = False,
    plain_logs: bool = True,
    **flags: Any,
) -> ResolvedConfig:
    """Join the global options with a command's own, load the configuration, and set up logging.

    Args:
        ctx: The command's context.
        config_file: The command's own ``--config``.
        log_level: The command's own ``--log-level``.
        verbose: The command's own ``--verbose``.
        plain_logs: Write the log as plain lines; a command that does it otherwise says False.
        flags: Fields of `RuntimeConfig` given as options; None means not given.

    Raises:
        ConfigError: A flag, a variable or the file is wrong.
    """
    from onnxgen.foundations.config_sources import load_runtime_config

    options = global_options(ctx)
    options.config_file = config_file or options.config_file
    options.log_level = log_level or options.log_level
    options.verbose = verbose or options.verbose
    given = {**flags, "log_level": options.log_level}
    resolved = load_runtime_config(
        flags={name: value for name, value in given.items() if value is not None},
        config_file=options.config_file,
    )
    if plain_logs:
        logging.basicConfig(level=resolved.config.log_level, format="%(levelname)s %(name)s: %(message)s")
    return resolved
