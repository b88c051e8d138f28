"""The application: its commands, in the order in which help lists them, and its global options."""

from __future__ import annotations

import typer

from onnxgen.cli.commands.bench import bench
from onnxgen.cli.commands.build import build
from onnxgen.cli.commands.check_trace import check_trace
from onnxgen.cli.commands.doctor import doctor
from onnxgen.cli.commands.generate import generate
from onnxgen.cli.commands.infer import infer
from onnxgen.cli.commands.list_models import list_models
from onnxgen.cli.commands.pull import pull
from onnxgen.cli.commands.remove import remove
from onnxgen.cli.commands.run import run
from onnxgen.cli.commands.show import show
from onnxgen.cli.commands.version import show_version, version
from onnxgen.cli.failures import FailureHandlingGroup
from onnxgen.cli.lazy_commands import with_lazy_commands
from onnxgen.cli.options import ConfigFile, LogLevel, Verbose, VersionFlag
from onnxgen.cli.settings import GlobalOptions

app = typer.Typer(
    cls=with_lazy_commands(
        FailureHandlingGroup, serve=("onnxgen.cli.commands.serve:serve_command", "generate")
    ),
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


@app.callback()
def onnxgen(
    ctx: typer.Context,
    config: ConfigFile = None,
    log_level: LogLevel = None,
    verbose: Verbose = False,
    version_flag: VersionFlag = False,
) -> None:
    """Run, build and look into generative models in ONNX format.

    Start with: onnxgen run smollm2 "What is the capital of France?"
    """
    ctx.obj = GlobalOptions(config_file=config, log_level=log_level, verbose=verbose)
    if version_flag:
        show_version()
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit


app.command("run")(run)
app.command("generate")(generate)
app.command("pull")(pull)
app.command("build")(build)
app.command("list")(list_models)
app.command("show")(show)
app.command("infer")(infer)
app.command("bench")(bench)
app.command("check-trace")(check_trace)
app.command("rm")(remove)
app.command("doctor")(doctor)
app.command("version")(version)
