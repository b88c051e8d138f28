"""``onnxgen version``."""

from __future__ import annotations

import typer


def version() -> None:
    """Show the version."""
    show_version()


def show_version() -> None:
    """Print the version on standard output."""
    from importlib.metadata import version as installed_version

    typer.echo(f"onnxgen {installed_version('onnxgen')}")
