"""Whose servers are measured, and how each is started: as many sequences at once and as many threads for all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.http.load import Target
from benchmarks.http.processes import ServerProcess, free_port
from benchmarks.http.setup.llama_server import llama_server, llama_server_version
from benchmarks.peers.contenders import OURS
from benchmarks.peers.layout import CHECKPOINT, model_path, python_of

MOST_AT_ONCE = 16
_SEQ_TOKENS = 2048  # the longest sequence, where a server wants to know


@dataclass(frozen=True)
class Places:
    """Where things lie, and what all servers share.

    Attributes:
        environments: Folder of virtual environments.
        models: Folder of models.
        threads: Threads that compute.
    """

    environments: Path
    models: Path
    threads: int


@dataclass(frozen=True)
class Start:
    """What starts a server.

    Attributes:
        command: Program and arguments.
        variables: Set in its environment.
    """

    command: Sequence[str | Path]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """A server of somebody.

    Attributes:
        name: What tables call it.
        key: What the command line calls it.
        form: Which form of a model it reads.
        program: The file without which it cannot run.
        start: How it is started with a model, on a port.
        version: What it is.
        is_peer: Whether it is somebody else's program.
    """

    name: str
    key: str
    form: str
    program: Callable[[Path], Path]
    start: Callable[[Places, Path, int], Start]
    version: Callable[[Path], str]
    is_peer: bool = True

    def lacks(self, places: Places, model: str) -> str | None:
        """What is missing to start it with a model; None if nothing is."""
        program = self.program(places.environments)
        if not program.exists():
            return f"{program.name} is not there; python -m benchmarks.http.setup makes it"
        path = model_path(places.models, model, self.form)
        return None if path.exists() else f"{model} is not there in its form ({path.name})"

    def run(self, places: Places, model: str) -> tuple[ServerProcess, Target]:
        """A server that can be asked, and where.

        Raises:
            ServerError: It does not start.
        """
        port = free_port()
        start = self.start(places, model_path(places.models, model, self.form).resolve(), port)
        server = ServerProcess(start.command, f"http://127.0.0.1:{port}/health", start.variables)
        return server, Target("127.0.0.1", port, "measured")


def _onnxgen(*, backend: str, more: Sequence[str] = ()) -> Callable[[Places, Path, int], Start]:
    def start(places: Places, model: Path, port: int) -> Start:
        command = [sys.executable, "-m", "onnxgen.cli", "serve", model, "--port", str(port)]
        command += ["--served-model-name", "measured", *more]
        return Start(command, {"ONNXGEN_BACKEND": backend, "ONNXGEN_THREADS": str(places.threads)})

    return start


def _llama_cpp(places: Places, model: Path, port: int) -> Start:
    # a cache for each slot is faster here than one for all; prompts are new, so old ones need not be kept
    shape = ["-np", MOST_AT_ONCE, "-c", MOST_AT_ONCE * _SEQ_TOKENS, "--no-kv-unified", "--cache-ram", 0]
    threads = ["-t", places.threads, "-tb", places.threads]
    command = [llama_server(places.environments), "-m", model, "--host", "127.0.0.1", "--port", port]
    return Start([str(word) for word in [*command, *shape, *threads, "--alias", "measured", "--offline"]])


def _open_vino(places: Places, model: Path, port: int) -> Start:
    python = python_of(places.environments, "openvino")
    # its exporter writes tokenizer.json anew, without the rules for blanks; the one it read is right
    command = [python, "-m", "benchmarks.http.workers.openvino", model, model.with_name(CHECKPOINT)]
    command += ["--port", str(port)]
    return Start([*command, "--threads", str(places.threads), "--max-seqs", str(MOST_AT_ONCE)])


def _package_version(environment: str, *packages: str) -> Callable[[Path], str]:
    def version(environments: Path) -> str:
        import subprocess

        code = f"from importlib.metadata import version as v; print(*[p + ' ' + v(p) for p in {packages}], sep=', ')"
        python = python_of(environments, environment)
        return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()

    return version


def _own_version(environments: Path) -> str:
    from importlib.metadata import version

    return ", ".join(f"{package} {version(package)}" for package in ("onnxgen", "uvicorn", "onnxruntime"))


def _own_program(environments: Path) -> Path:
    return Path(sys.executable)


CONTENDERS = (
    Contender(
        OURS, "native", "onnxgen", _own_program, _onnxgen(backend="native"), _own_version, is_peer=False
    ),
    Contender(
        "onnxgen, ONNX Runtime backend",
        *("ort", "onnxgen", _own_program, _onnxgen(backend="ort"), _own_version),
        is_peer=False,
    ),
    Contender("llama.cpp's server", "llamacpp", "llamacpp", llama_server, _llama_cpp, llama_server_version),
    Contender(
        "OpenVINO GenAI, minimal server",
        *("openvino", "openvino", lambda environments: python_of(environments, "openvino"), _open_vino),
        _package_version("openvino", "openvino-genai", "tokenizers"),
    ),
)
