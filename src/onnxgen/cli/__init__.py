"""The command line: a thin layer over the Python API that prints and exits.

Knows the terminal; knows nothing that the Python API does not offer.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line with the process's arguments, and exit."""
    from onnxgen.cli.app import app
    from onnxgen.cli.process import prepare_process

    prepare_process()
    app(prog_name="onnxgen")
