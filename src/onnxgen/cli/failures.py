"""From exceptions to one clear message and an exit code.

===  ==========================================================================
0    good
1    failed: the message says what, where, why and what to do
2    usage: an option, an argument or the configuration is wrong
130  interrupted
===  ==========================================================================
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from onnxgen.cli.settings import GlobalOptions
from onnxgen.cli.terminal import note, paint
from onnxgen.errors import ConfigError, OnnxgenError, OptionError

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class FailureHandlingGroup(TyperGroup):
    """A group of commands whose exceptions end in a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Invoke the command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _discard_output()
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OnnxgenError as error:
            report(error, verbose=_is_verbose(ctx))
            raise typer.Exit(exit_code(error)) from None
        except (OSError, MemoryError) as error:
            report(error, verbose=_is_verbose(ctx))
            raise typer.Exit(FAILED) from None
        except Exception as error:
            if isinstance(error, typer.Exit | typer.Abort) or hasattr(error, "show"):
                raise  # the parser's own: it knows how to show itself
            report(error, verbose=_is_verbose(ctx))
            note("this is a defect of onnxgen; with --verbose it shows where, which helps whoever mends it")
            raise typer.Exit(FAILED) from None
        return result


def exit_code(error: OnnxgenError) -> int:
    """2 for what the user typed or configured, 1 for everything else."""
    return USAGE if isinstance(error, OptionError | ConfigError) else FAILED


def report(error: BaseException, *, verbose: bool) -> None:
    """Print an error, and its traceback if the user wants to know more."""
    if verbose:
        traceback.print_exception(error)
    text = str(error) if isinstance(error, OnnxgenError) else _described(error)
    print(f"{paint('error:', 'red', sys.stderr)} {text}", file=sys.stderr)


def _described(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory{f': {error}' if str(error) else ''}"
    return f"{type(error).__name__}: {error}"


def _is_verbose(ctx: Any) -> bool:
    return isinstance(ctx.obj, GlobalOptions) and ctx.obj.verbose


def _discard_output() -> None:
    """Whoever read our output has left; keep the interpreter from complaining when it flushes at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
