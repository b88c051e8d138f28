"""``onnxgen version``."""

from __future__ import annotations

import typer

from onnxgen.version import __version__


def version() -> None:
    """Show the version."""
    show_version()


def show_version() -> None:
    """Print the version on standard output."""
    typer.echo(f"onnxgen {__version__}")
