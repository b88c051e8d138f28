"""llama.cpp's server, built for this machine from the sources that come with llama-cpp-python."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from benchmarks.peers.layout import python_of

_PACKAGE = "llama-cpp-python"
_OPTIONS = (
    *("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_OPENSSL=OFF"),
    *("-DLLAMA_BUILD_UI=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_TESTS=OFF"),
    *("-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF"),
)


def llama_server(environments: Path) -> Path:
    """The program, which may not exist yet."""
    return environments / "llama-server" / "llama-server"


def llama_server_version(environments: Path) -> str:
    """What it was built from."""
    return llama_server(environments).with_name("version").read_text(encoding="utf-8").strip()


def build_llama_server(environments: Path, *, jobs: int) -> None:
    """Fetch the sources of the package that is installed beside it, and build; what is built already is left alone."""
    program = llama_server(environments)
    if program.exists():
        return
    python = python_of(environments, "llamacpp")
    code = f"from importlib.metadata import version; print(version({_PACKAGE!r}))"
    version = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(dir=environments) as scratch:
        folder = Path(scratch)
        fetch = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", _PACKAGE]
        subprocess.run([*fetch, f"{_PACKAGE}=={version}", "-d", folder], check=True)
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as sources:
            sources.extractall(folder, filter="data")
        (source,) = folder.glob("*/vendor/llama.cpp")
        build = folder / "build"
        subprocess.run(["cmake", "-S", source, "-B", build, *_OPTIONS], check=True)
        subprocess.run(
            ["cmake", "--build", build, "--target", "llama-server", "--parallel", str(jobs)], check=True
        )
        program.parent.mkdir(exist_ok=True)
        program.with_name("version").write_text(f"llama.cpp of {_PACKAGE} {version}\n", encoding="utf-8")
        part = program.with_name("part")
        shutil.copy2(build / "bin" / "llama-server", part)
        part.rename(program)
