"""``onnxgen show``: what a model, a checkpoint or a name is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from onnxgen.cli.facts import Facts, facts_text
from onnxgen.cli.options import ConfigFile, Json, LogLevel, ModelArgument, Verbose
from onnxgen.cli.settings import load_settings
from onnxgen.errors import ModelNotFoundError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.catalog import CatalogEntry
    from onnxgen.foundations.runtime_config import RuntimeConfig


def show(
    ctx: typer.Context,
    model: ModelArgument,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Show what a model, a checkpoint or a name is.

    Nothing is fetched.
    """
    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    found = described(model, config=resolved.config)
    if json_output:
        typer.echo(json.dumps(found, default=str))
    else:
        typer.echo("\n\n".join(facts_text(facts) for facts in found.values()))


def described(model: str, *, config: RuntimeConfig) -> dict[str, Facts]:
    """Facts of everything that ``model`` stands for: a path, or the catalog's and the cache's of a name.

    Raises:
        ModelNotFoundError: It stands for nothing.
        ModelFileError: What is there cannot be read.
    """
    path = Path(model).expanduser()
    if path.exists():
        return {"model": _path_facts(path)}
    from onnxgen.catalog import entries, find, local_items
    from onnxgen.catalog.layout import is_built_from
    from onnxgen.catalog.references import parse_reference

    items = local_items(config.cache_dir)
    entry = find(model)
    name = parse_reference(model).name if entry or ":" in model else model
    found: dict[str, Facts] = {"catalog": _entry_facts(entry)} if entry else {}
    for item in items:
        if item.name == name or is_built_from(item.name, name):
            found[f"{item.kind.value} {item.name}"] = _path_facts(item.path)
    if not found:
        names = sorted({item.name for item in items} | {known.name for known in entries()})
        raise ModelNotFoundError(
            f"{model!r} is neither a file or folder nor a name that is known here ({', '.join(names)})"
            f"{did_you_mean(model, names)}"
        )
    return found


def _path_facts(path: Path) -> Facts:
    from onnxgen.cli.checkpoint_facts import checkpoint_facts
    from onnxgen.cli.model_facts import model_facts
    from onnxgen.metadata.folder import is_model_folder

    return model_facts(path) if is_model_folder(path) else checkpoint_facts(path)


def _entry_facts(entry: CatalogEntry) -> Facts:
    return {
        "name": entry.name,
        "description": entry.description,
        "licence": entry.licence,
        "file": entry.file,
        "size_bytes": entry.size_bytes,
        "sha256": entry.sha256,
        "sources": [str(source) for source in entry.sources],
    }
