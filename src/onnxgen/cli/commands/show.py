"""``onnxgen show``: what a model, a checkpoint or a name is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxgen.cli.facts import Facts, facts_text
from onnxgen.cli.graph_options import (
    DEFAULT_OPTIMIZATION,
    DEFAULT_PROVIDERS,
    Dims,
    Optimization,
    Providers,
    TraceFile,
    provider_names,
    sizes_by_name,
)
from onnxgen.cli.options import ConfigFile, Json, LogLevel, ModelArgument, Verbose
from onnxgen.cli.settings import load_settings
from onnxgen.errors import ModelNotFoundError, OptionError
from onnxgen.foundations.suggest import did_you_mean

if TYPE_CHECKING:
    from onnxgen.catalog import CatalogEntry
    from onnxgen.foundations.runtime_config import RuntimeConfig

_OF_GRAPHS = ("providers", "dim", "optimization", "trace")


def show(
    ctx: typer.Context,
    model: ModelArgument,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Show the kernel calls of the native backend, or the Python that onnxgen's own runtime makes of "
            "the graph where that backend does not run it or options of graphs are given.",
        ),
    ] = False,
    placement: Annotated[
        bool,
        typer.Option("--placement", help="Show which execution provider runs each node, and what it costs."),
    ] = False,
    providers: Providers = DEFAULT_PROVIDERS,
    dim: Dims = None,
    optimization: Optimization = DEFAULT_OPTIMIZATION,
    trace: TraceFile = None,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Show what a model, a checkpoint, an ONNX file or a name is.

    Nothing is fetched. --plan and --placement show how onnxgen's own runtime would run the graph of a model folder or an
    ONNX file.
    """
    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    if plan and not placement and not any(_is_given(ctx, name) for name in _OF_GRAPHS):
        text = _native_plan(model, config=resolved.config)
        if text is not None:
            typer.echo(json.dumps({"plan": text}) if json_output else text)
            return
    if plan or placement:
        _show_execution(
            model,
            plan=plan,
            placement=placement,
            providers=provider_names(providers),
            optimization=optimization,
            sizes=sizes_by_name(dim),
            trace=trace,
            json_output=json_output,
        )
        return
    unused = [name for name in _OF_GRAPHS if _is_given(ctx, name)]
    if unused:
        given = ", ".join(f"--{name}" for name in unused)
        raise OptionError(f"{given}: only --plan and --placement use that; add one of them")
    found = described(model, config=resolved.config)
    if json_output:
        typer.echo(json.dumps(found, default=str))
    else:
        typer.echo("\n\n".join(facts_text(facts) for facts in found.values()))


def _native_plan(model: str, *, config: RuntimeConfig) -> str | None:
    """The plan of a model folder that the native backend runs; None for everything else."""
    from onnxgen.backends import NATIVE, choose_backend
    from onnxgen.metadata import load_model_spec
    from onnxgen.metadata.folder import is_model_folder

    folder = Path(model)
    if not is_model_folder(folder):
        return None
    decoder = load_model_spec(folder).decoder
    if choose_backend(decoder, config).name != NATIVE:
        return None
    from onnxgen.backends.native.plan_text import plan_text
    from onnxgen.backends.native.prepared import prepare

    return plan_text(prepare(decoder, config).plan)


def _is_given(ctx: typer.Context, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _show_execution(
    model: str,
    *,
    plan: bool,
    placement: bool,
    providers: list[str],
    optimization: str,
    sizes: dict[str, int],
    trace: Path | None,
    json_output: bool,
) -> None:
    from onnxgen.cli.graph_session import graph_path, open_session, write_trace
    from onnxgen.cli.placement_text import placement_json, placement_text

    session = open_session(
        graph_path(model), providers=providers, optimization=optimization, sizes=sizes, trace=trace
    )
    write_trace(session, trace)
    executable = session.executable
    if json_output:
        rows = placement_json(executable.placement.table())
        shown = {"placement": rows if placement else None, "plan": executable.source if plan else None}
        typer.echo(json.dumps({key: value for key, value in shown.items() if value is not None}))
        return
    if placement:
        typer.echo(placement_text(executable.placement.table()))
    if plan:
        typer.echo(executable.source)


def described(model: str, *, config: RuntimeConfig) -> dict[str, Facts]:
    """Facts of everything that ``model`` stands for: a path, or the catalog's and the cache's of a name.

    Raises:
        ModelNotFoundError: It stands for nothing.
        ModelFileError: What is there cannot be read.
    """
    path = Path(model).expanduser()
    if path.exists():
        return {"model": _path_facts(path, config)}
    from onnxgen.catalog import entries, find, local_items
    from onnxgen.catalog.layout import is_built_from
    from onnxgen.catalog.references import parse_reference

    items = local_items(config.cache_dir)
    entry = find(model)
    name = parse_reference(model).name if entry or ":" in model else model
    found: dict[str, Facts] = {"catalog": _entry_facts(entry)} if entry else {}
    for item in items:
        if item.name == name or is_built_from(item.name, name):
            found[f"{item.kind.value} {item.name}"] = _path_facts(item.path, config)
    if not found:
        names = sorted({item.name for item in items} | {known.name for known in entries()})
        raise ModelNotFoundError(
            f"{model!r} is neither a file or folder nor a name that is known here ({', '.join(names)})"
            f"{did_you_mean(model, names)}"
        )
    return found


def _path_facts(path: Path, config: RuntimeConfig) -> Facts:
    from onnxgen.cli.checkpoint_facts import checkpoint_facts
    from onnxgen.cli.graph_facts import onnx_file_facts
    from onnxgen.cli.model_facts import model_facts
    from onnxgen.metadata.folder import is_model_folder

    if path.is_file() and path.suffix == ".onnx":
        return onnx_file_facts(path)
    return model_facts(path, config) if is_model_folder(path) else checkpoint_facts(path)


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
