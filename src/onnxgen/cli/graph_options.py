"""Options of the commands that look into or run ONNX graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxgen.errors import OptionError

Providers = Annotated[
    str,
    typer.Option(
        "--providers", metavar="NAMES", help="Execution providers in the order of preference, with commas."
    ),
]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        metavar="NAME=SIZE",
        help="Size of a symbolic dimension of the inputs; may be repeated.",
        show_default=False,
    ),
]
Optimization = Annotated[
    str,
    typer.Option("--optimization", metavar="LEVEL", help="disabled, basic, extended or all."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Write what happened when, for https://ui.perfetto.dev.",
        show_default=False,
    ),
]

DEFAULT_PROVIDERS = "cpu,reference"
DEFAULT_OPTIMIZATION = "all"


def provider_names(text: str) -> list[str]:
    """The names in a list with commas.

    Raises:
        OptionError: There are none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError(f"--providers {text!r} names no provider; give some, such as {DEFAULT_PROVIDERS}")
    return names


def sizes_by_name(dims: list[str] | None) -> dict[str, int]:
    """Sizes by symbol.

    Raises:
        OptionError: One is not NAME=SIZE.
    """
    sizes: dict[str, int] = {}
    for text in dims or ():
        name, equals, size = text.rpartition("=")
        if not equals or not name or not size.isascii() or not size.isdecimal():
            raise OptionError(f"--dim {text!r} is not NAME=SIZE with a whole number, such as --dim batch=2")
        sizes[name] = int(size)
    return sizes
