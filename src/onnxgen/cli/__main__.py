"""``python -m onnxgen.cli``: the command line where its script is not on the path."""

from onnxgen.cli import main

main()
