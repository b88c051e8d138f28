"""``onnxgen serve``: models over HTTP, as OpenAI's API does."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxgen.cli.options import Backend, ConfigFile, LogLevel, Threads, Verbose
from onnxgen.cli.process import exit_if_told
from onnxgen.cli.progress import make_progress
from onnxgen.cli.serve_flags import with_settings
from onnxgen.cli.settings import global_options, load_settings
from onnxgen.cli.terminal import note
from onnxgen.foundations.config_sources import DEFAULT_ORIGIN

if TYPE_CHECKING:
    from onnxgen.foundations.config_sources import ResolvedConfig

_log = logging.getLogger("onnxgen.server")


def serve(
    ctx: typer.Context,
    *,
    given: dict[str, Any],
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Check settings, models and address, say what would be served, and exit."
        ),
    ] = False,
    backend: Backend = None,
    threads: Threads = None,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
) -> None:
    """Serve models over HTTP, as OpenAI's API does.

    Also Anthropic's messages, and a chat page at /.

    Each option can also be a variable, whose name stands in brackets, or a key of the table [serve] of the
    configuration file. Flags win over variables, variables over the file.
    """
    from onnxgen.server import run
    from onnxgen.server.check import check_model
    from onnxgen.server.observe.logs import configure_logs, is_text
    from onnxgen.server.settings_sources import read_settings
    from onnxgen.server.startup import open_services

    resolved = load_settings(
        ctx,
        config_file=config,
        log_level=log_level,
        verbose=verbose,
        plain_logs=False,
        backend=backend,
        threads=threads,
    )
    settings = read_settings(given, config_file=global_options(ctx).config_file)
    configure_logs(sys.stderr, form=settings.log_format, level=_level(resolved))
    progress = make_progress()
    with run.listen(settings) as listener:
        services = open_services(settings, resolved.config, progress=progress)
        if not check:
            exit_if_told()  # from here on the server hears of signals
            # whoever reads a log of JSON lines finds nothing else between them
            run.serve(services, listener, say=note if is_text(sys.stderr, settings.log_format) else _log.info)
            return
        run.protected_app(services)  # reads keys
        for entry in services.models.entries:
            for line in check_model(entry, settings, resolved.config, progress=progress):
                typer.echo(line)
        typer.echo(f"would listen on {run.address_of(listener)}")


def _level(resolved: ResolvedConfig) -> str:
    """The level of the log: a server says what it does, unless somebody wants to hear less or more."""
    return "INFO" if resolved.origins["log_level"] == DEFAULT_ORIGIN else resolved.config.log_level


def serve_command() -> Any:
    """The command, made when it is asked for, since its flags need the server's libraries."""
    alone = typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    alone.command("serve")(with_settings(serve))
    return typer.main.get_command(alone)
