"""``onnxgen bench``: how fast a model runs here, where the time goes, and how near that is to what is possible."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from onnxgen.cli.bench_tasks import Task, sizes_in
from onnxgen.cli.options import (
    Backend,
    ConfigFile,
    Json,
    LogLevel,
    ModelArgument,
    PrecisionOption,
    Threads,
    Verbose,
)
from onnxgen.cli.progress import make_progress
from onnxgen.cli.settings import load_settings

_DEFAULTS = {"prefill": "128,512,2048", "decode": "128,1024", "streams": "1,8,16"}


def bench(
    ctx: typer.Context,
    model: ModelArgument,
    prefill: Annotated[
        str | None,
        typer.Option(
            "--prefill",
            metavar="LENGTHS",
            help="Lengths of prompts, with commas; '' for none.",
            show_default=_DEFAULTS["prefill"],
        ),
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(
            "--decode",
            metavar="CONTEXTS",
            help="Tokens before an answer, with commas; '' for none.",
            show_default=_DEFAULTS["decode"],
        ),
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            "--streams",
            metavar="COUNTS",
            help="Sequences at once, each with a prompt of 128 tokens, with commas; '' for none.",
            show_default=_DEFAULTS["streams"],
        ),
    ] = None,
    new_tokens: Annotated[
        int, typer.Option("--new-tokens", metavar="N", min=2, help="Length of each answer.")
    ] = 64,
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", min=1, help="How often; the median counts.")
    ] = 3,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            help="A backend that takes turns with the measured one, in this process.",
            show_default=False,
        ),
    ] = None,
    precision: PrecisionOption = "int4",
    backend: Backend = None,
    threads: Threads = None,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Measure how fast a model runs here, and where the time goes.

    Answers are greedy and go on past an end of text; nothing else should run on the machine meanwhile.
    """
    asked = {"prefill": prefill, "decode": decode, "streams": streams}
    sizes = {
        kind: sizes_in(_DEFAULTS[kind] if text is None else text, f"--{kind}") for kind, text in asked.items()
    }
    settings = load_settings(
        ctx, config_file=config, log_level=log_level, verbose=verbose, backend=backend, threads=threads
    ).config

    from onnxgen.cli.bench_report import as_json, as_text
    from onnxgen.cli.bench_run import run_bench
    from onnxgen.facade.resolve import resolve_model

    folder = resolve_model(model, config=settings, precision=precision, progress=make_progress())
    report = run_bench(
        folder,
        model,
        [Task(kind, size, 1 if kind == "prefill" else new_tokens) for kind in sizes for size in sizes[kind]],
        must_fit={kind for kind, text in asked.items() if text is not None},
        config=settings,
        against=against,
        repeats=repeats,
        with_roof=not json_output,
    )
    typer.echo(json.dumps(as_json(report)) if json_output else as_text(report))
