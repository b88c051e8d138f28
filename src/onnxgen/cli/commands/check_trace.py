"""``onnxgen check-trace``: whether an engine that wrote down what it did kept its promises."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from onnxgen.cli.options import ConfigFile, Json, LogLevel, Verbose
from onnxgen.cli.settings import load_settings


def check_trace(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="What an engine wrote (EngineConfig.trace).", exists=True, dir_okay=False
        ),
    ],
    max_shown: Annotated[
        int, typer.Option("--max", metavar="N", min=0, help="How many broken rules to show.")
    ] = 20,
    starved_steps: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Steps with prompts that a running answer may miss in a row."),
    ] = 16,
    json_output: Json = False,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Replay an engine's trace and show every rule it broke.

    Exits with 1 if there is one.
    """
    from onnxgen.conformance.engine_trace import check_trace as check

    load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    with file.open(encoding="utf-8", errors="replace") as lines:
        report = check(lines, starved_steps=starved_steps)
    if json_output:
        typer.echo(json.dumps(dataclasses.asdict(report)))
    else:
        for violation in report.violations[:max_shown]:
            typer.echo(str(violation))
        counts = Counter(violation.rule for violation in report.violations)
        broken = ", ".join(f"{count} {rule}" for rule, count in counts.items()) or "no rule is broken"
        typer.echo(f"{report.num_lines} events, {report.num_steps} steps: {broken}")
    if report.violations:
        raise typer.Exit(1)
