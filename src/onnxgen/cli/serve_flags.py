"""The flags of ``onnxgen serve``: one for each field of `ServerSettings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from onnxgen.cli.options import ModelArgument
from onnxgen.server.settings_sources import FIELDS, flag_of, is_list, is_switch, variable_of


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command a flag for each setting of a server.

    Args:
        command: Takes a context, the flags that were given as ``given``, and keywords of its own.

    Returns:
        A command for typer, whose signature has the flags and the keywords.
    """
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "given"]
    settings = [_parameter(name) for name in FIELDS]

    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in FIELDS}
        command(given={n: v for n, v in given.items() if v not in (None, [])}, **values)

    signature = inspect.Signature(
        [*(p.replace(kind=p.KEYWORD_ONLY) for p in (*own[:1], *settings, *own[1:]))]
    )
    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped


def _parameter(name: str) -> inspect.Parameter:
    if name == "model":
        annotation: Any = Annotated[str | None, *get_args(ModelArgument)[1:]]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    field = FIELDS[name]
    default = None if is_list(name) else _shown(field.default)
    option = typer.Option(
        f"{flag_of(name)}/--no-{flag_of(name)[2:]}" if is_switch(name) else flag_of(name),
        metavar=None if is_switch(name) else _metavar(name),
        help=f"{field.description} [{variable_of(name)}]",
        show_default=default or False,
    )
    kind = bool if is_switch(name) else list[str] if is_list(name) else str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )


def _shown(default: Any) -> str | None:
    if default is None or default == "":
        return None
    return {True: "on", False: "off"}[default] if isinstance(default, bool) else str(default)


def _metavar(name: str) -> str:
    kinds = {FIELDS[name].annotation, *get_args(FIELDS[name].annotation)}
    if Path in kinds:
        return "PATH"
    if name.endswith("_s"):
        return "SECONDS"
    if name.endswith("_mb"):
        return "MIB"
    return "N" if kinds & {int, float} else "TEXT"
