"""``onnxgen infer``: an ONNX graph run once or a few times, on given or random inputs."""

from __future__ import annotations

import json
import statistics
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

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
from onnxgen.cli.options import ConfigFile, Json, LogLevel, Verbose
from onnxgen.cli.settings import load_settings

if TYPE_CHECKING:
    from onnxgen.facade.runtime import InferenceSession


def infer(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="An ONNX file, or a folder with one.")],
    input_files: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=FILE",
            help="An input's value (.npy); may be repeated. Other inputs are random.",
            show_default=False,
        ),
    ] = None,
    dim: Dims = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the random inputs.")] = 0,
    runs: Annotated[int, typer.Option("--runs", metavar="N", min=1, help="How often to run.")] = 1,
    providers: Providers = DEFAULT_PROVIDERS,
    optimization: Optimization = DEFAULT_OPTIMIZATION,
    trace: TraceFile = None,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Run an ONNX graph and describe its outputs.

    Inputs without a file are random. Symbolic dimensions are 1 unless --dim says otherwise.
    """
    from onnxgen.cli.graph_session import graph_path, open_session, write_trace
    from onnxgen.cli.random_feeds import feeds_for, files_by_name

    load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    files, sizes = files_by_name(input_files or ()), sizes_by_name(dim)
    begin = perf_counter()
    session = open_session(
        graph_path(model),
        providers=provider_names(providers),
        optimization=optimization,
        sizes={},
        trace=trace,
    )
    load_s = perf_counter() - begin
    feeds = feeds_for(session.get_inputs(), files=files, sizes=sizes, seed=seed)
    outputs, seconds = _run(session, feeds, runs)
    write_trace(session, trace)
    names = [port.name for port in session.get_outputs()]
    found: Facts = {
        "inputs": {name: description(value) for name, value in feeds.items()},
        "outputs": {name: description(value) for name, value in zip(names, outputs, strict=True)},
        "providers": session.get_providers(),
        "load_s": load_s,
        "runs": runs,
        "first_run_s": seconds[0],
        "median_run_s": statistics.median(seconds[1:]) if runs > 1 else None,
    }
    typer.echo(json.dumps(found) if json_output else facts_text(_readable(found)))


def _run(session: InferenceSession, feeds: dict[str, Any], runs: int) -> tuple[list[Any], list[float]]:
    """Outputs of the last run, and what each run took."""
    outputs: list[Any] = []
    seconds: list[float] = []
    for _ in range(runs):
        begin = perf_counter()
        outputs = session.run(None, feeds)
        seconds.append(perf_counter() - begin)
    return outputs, seconds


def description(value: Any) -> Facts:
    """Type, shape and a few statistics of a value; of NaN and infinities the number, where there are any."""
    import numpy as np

    if not isinstance(value, np.ndarray):
        size = len(value) if isinstance(value, list | dict) else None
        return {"type": "none" if value is None else type(value).__name__, "size": size}
    kind: Facts = {
        "type": "string" if value.dtype == object else value.dtype.name,
        "shape": list(value.shape),
    }
    if value.size == 0 or value.dtype == object:
        return kind
    numbers = value.astype(np.float64) if value.dtype.kind not in "iubc" else value
    if numbers.dtype.kind in "iub":
        return kind | {"min": int(numbers.min()), "max": int(numbers.max()), "mean": float(numbers.mean())}
    if numbers.dtype.kind == "c":
        return kind | {"mean_magnitude": float(np.abs(numbers).mean())}
    finite = numbers[np.isfinite(numbers)]
    if finite.size:
        kind |= {"min": float(finite.min()), "max": float(finite.max()), "mean": float(finite.mean())}
    if finite.size < numbers.size:
        kind |= {"nan": int(np.isnan(numbers).sum()), "infinite": int(np.isinf(numbers).sum())}
    return kind


def _readable(found: Facts) -> Facts:
    """Values on one line each, times with three digits."""
    lines = {
        key: {name: _on_a_line(facts) for name, facts in found[key].items()} for key in ("inputs", "outputs")
    }
    times = {
        key.removesuffix("_s"): f"{value:.3g} s"
        for key in ("load_s", "first_run_s", "median_run_s")
        if (value := found[key]) is not None
    }
    return {**lines, "providers": found["providers"], "runs": found["runs"], **times}


def _on_a_line(facts: Facts) -> str:
    shape = facts.get("shape")
    head = facts["type"] if shape is None else f"{facts['type']}[{', '.join(map(str, shape))}]"
    numbers = [
        f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in facts.items()
        if name not in ("type", "shape") and value is not None
    ]
    return ", ".join([head, *numbers])
