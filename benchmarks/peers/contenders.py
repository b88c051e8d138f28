"""Who is measured: onnxgen's backends and the peers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.layout import model_path, python_of
from benchmarks.peers.worker import Worker


@dataclass(frozen=True)
class Contender:
    """A program in one way of running it.

    Attributes:
        name: What tables call it.
        form: Which form of a model it reads, and the name of its worker's module.
        environment: Its virtual environment; None is this one.
        arguments: Of its worker.
        workers: The package with its worker's module.
    """

    name: str
    form: str
    environment: str | None = None
    arguments: tuple[str, ...] = ()
    workers: str = "benchmarks.peers.workers"

    @property
    def key(self) -> str:
        """What it is called on the command line: onnxgen's are their backends."""
        return self.arguments[0] if self.arguments else self.form

    @property
    def is_peer(self) -> bool:
        """Whether it is somebody else's program."""
        return self.environment is not None

    def python(self, environments: Path) -> Path:
        """Its interpreter, which may not exist."""
        return Path(sys.executable) if self.environment is None else python_of(environments, self.environment)

    def start(self, environments: Path) -> Worker:
        """A process of it that has loaded nothing yet."""
        return Worker([self.python(environments), "-m", f"{self.workers}.{self.form}", *self.arguments])

    def lacks(self, environments: Path, models: Path, model: str) -> str | None:
        """What is missing to measure it with a model; None if nothing is."""
        if not self.python(environments).exists():
            return f"its environment ({self.python(environments).parent.parent.name}) is not there"
        path = model_path(models, model, self.form)
        return None if path.exists() else f"{model} is not there in its form ({path.name})"


OURS = "onnxgen"
CONTENDERS = (
    Contender(OURS, "onnxgen", arguments=("native",)),
    Contender("onnxgen, ONNX Runtime backend", "onnxgen", arguments=("ort",)),
    Contender("onnxruntime-genai", "og", environment="og"),
    Contender("OpenVINO GenAI", "openvino", environment="openvino"),
    Contender("llama.cpp", "llamacpp", environment="llamacpp"),
)
