"""``onnxgen rm``: remove checkpoints and built models from the cache."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxgen.cli.options import ConfigFile, LogLevel, Verbose
from onnxgen.cli.settings import load_settings
from onnxgen.foundations.disk import format_bytes


def remove(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names that 'onnxgen list' shows.")],
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Remove checkpoints and models from the cache.

    A checkpoint takes the models built from it along.
    """
    from onnxgen.catalog import remove_local

    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    for name in names:
        for item in remove_local(name, cache_dir=resolved.config.cache_dir):
            typer.echo(f"removed {item.kind.value} {item.name} ({format_bytes(item.size_bytes)})")
