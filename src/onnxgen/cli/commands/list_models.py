"""``onnxgen list``: what is on this machine, and what the catalog has."""

from __future__ import annotations

import datetime
import json
from typing import TYPE_CHECKING, Any

import typer

from onnxgen.cli.options import ConfigFile, Json, LogLevel, Verbose
from onnxgen.cli.settings import load_settings
from onnxgen.cli.terminal import columns
from onnxgen.foundations.disk import format_bytes

if TYPE_CHECKING:
    from onnxgen.catalog import LocalItem


def list_models(
    ctx: typer.Context,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """List what is on this machine and in the catalog."""
    from onnxgen.catalog import local_items

    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    items = local_items(resolved.config.cache_dir)
    if json_output:
        typer.echo(
            json.dumps({"local": [_local_json(item) for item in items], "catalog": _catalog_json(items)})
        )
        return
    if items:
        rows = [("NAME", "KIND", "SIZE", "MADE", "PATH")]
        rows += [
            (item.name, item.kind.value, format_bytes(item.size_bytes), _made(item), str(item.path))
            for item in items
        ]
        typer.echo(columns(rows) + "\n")
    rows = [("CATALOG", "SIZE", "HERE", "LICENCE", "DESCRIPTION")]
    rows += [
        (
            entry["name"],
            format_bytes(entry["size_bytes"]),
            "yes" if entry["here"] else "no",
            entry["licence"],
            entry["description"],
        )
        for entry in _catalog_json(items)
    ]
    typer.echo(columns(rows))


def _local_json(item: LocalItem) -> dict[str, Any]:
    return {
        "name": item.name,
        "kind": item.kind.value,
        "path": str(item.path),
        "size_bytes": item.size_bytes,
        "modified": _time(item).isoformat(timespec="seconds"),
        "origin": item.origin,
    }


def _catalog_json(items: tuple[LocalItem, ...]) -> list[dict[str, Any]]:
    from onnxgen.catalog import entries

    here = {item.name for item in items}
    return [
        {
            "name": entry.name,
            "description": entry.description,
            "licence": entry.licence,
            "size_bytes": entry.size_bytes,
            "here": entry.name in here,
        }
        for entry in entries()
    ]


def _made(item: LocalItem) -> str:
    return f"{_time(item):%Y-%m-%d %H:%M}"


def _time(item: LocalItem) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(item.modified_s, tz=datetime.UTC).astimezone()
