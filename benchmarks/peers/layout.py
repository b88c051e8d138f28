"""Where environments and models lie, under two folders that the caller names.

::

    ENVIRONMENTS/peers-llamacpp/bin/python           one virtual environment for each peer
    MODELS/smollm2-135m/checkpoint/                  what all forms of a model are made from
    MODELS/smollm2-135m/onnxgen/                     a peer's form: a folder or a file with the peer's name
    MODELS/smollm2-135m/llamacpp.gguf
"""

from __future__ import annotations

import sys
from pathlib import Path

CHECKPOINT = "checkpoint"


def python_of(environments: Path, name: str) -> Path:
    """The interpreter of one virtual environment."""
    inside = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return environments / f"peers-{name}" / Path(*inside)


def model_path(models: Path, model: str, form: str) -> Path:
    """A model in the form that one peer reads; it may not exist yet."""
    return models / model / (f"{form}.gguf" if form == "llamacpp" else form)
