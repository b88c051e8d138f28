"""The virtual environment of each peer: what is installed, and how."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.layout import python_of


@dataclass(frozen=True)
class Environment:
    """What pip is asked for.

    Attributes:
        requirements: Arguments of ``pip install``.
        variables: Set while it runs.
        binary: False builds the last requirement from source, for this machine's CPU.
    """

    requirements: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    binary: bool = True


ENVIRONMENTS: Mapping[str, Environment] = {
    "og": Environment(("numpy", "onnxruntime==1.32.*", "onnxruntime-genai==0.18.*")),
    "openvino": Environment(("numpy", "openvino-genai==2026.4.*")),
    # Its wheel is made for an old CPU; what is compared is its native build (20 minutes on two cores).
    "llamacpp": Environment(
        ("numpy", "gguf", "safetensors", "ml-dtypes", "llama-cpp-python"),
        {"CMAKE_ARGS": "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"},
        binary=False,
    ),
    # Runs the exporters of the others, which need PyTorch; nothing is measured in it. The CPU build of PyTorch
    # is a tenth of the other's size: point pip at it (PIP_EXTRA_INDEX_URL) where it is not what pip finds.
    "export": Environment(
        (
            *("torch", "optimum-intel[nncf,openvino]", "openvino-tokenizers", "accelerate", "gguf"),
            *("onnx-ir", "onnxruntime==1.32.*", "onnxruntime-genai==0.18.*"),
        )
    ),
}


def make_environment(environments: Path, name: str) -> None:
    """Create a virtual environment and fill it; one that is there already is left alone."""
    wanted, python = ENVIRONMENTS[name], python_of(environments, name)
    done = python.parent.parent / "complete"
    if done.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    if not wanted.binary:
        pip += ["--no-binary", wanted.requirements[-1]]
    subprocess.run([*pip, *wanted.requirements], check=True, env=os.environ | wanted.variables)
    done.touch()
