"""Packages fetched by name through the installer that the user has: pip, or uv where pip is missing."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxgen.catalog.contents import PackageContents, open_contents
from onnxgen.catalog.watch import POLL_S, GrowthMeter, largest_file
from onnxgen.errors import DownloadError
from onnxgen.foundations.progress import Progress

_TAIL_LINES = 6
_STOP_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class PackageTool:
    """A program that fetches packages.

    Attributes:
        name: For messages.
        command: From a requirement, the folder where the package shall land (as a wheel or unpacked), and a
            folder for what the program needs meanwhile, to the command to run.
    """

    name: str
    command: Callable[[str, Path, Path], list[str]]


def available_tools() -> tuple[PackageTool, ...]:
    """The tools of this machine, the preferred one first; empty if there is none."""
    tools: list[PackageTool] = []
    if importlib.util.find_spec("pip") is not None:
        tools.append(PackageTool("pip", _pip_command))
    if uv := shutil.which("uv"):
        tools.append(PackageTool("uv", functools.partial(_uv_command, uv)))
    return tuple(tools)


def first_tool(tools: Sequence[PackageTool]) -> PackageTool:
    """The preferred tool.

    Raises:
        DownloadError: There is none.
    """
    if not tools:
        raise DownloadError(
            "neither pip nor uv was found, and one of them is needed to fetch packages; "
            "run 'python -m ensurepip', or install uv"
        )
    return tools[0]


@contextlib.contextmanager
def fetched_package(
    requirement: str,
    *,
    tool: PackageTool,
    folder: Path,
    download_bytes: int | None,
    progress: Progress,
) -> Generator[PackageContents]:
    """Fetch a package without its dependencies into a temporary folder inside ``folder``; yield what is in it.

    Nothing of the package is imported or run, and nothing of it is left afterwards.

    Raises:
        DownloadError: The tool failed (with the end of what it said), or left no readable package.
    """
    work = Path(tempfile.mkdtemp(prefix="package.", dir=folder))
    try:
        target, scratch = work / "target", work / "scratch"
        target.mkdir()
        scratch.mkdir()
        with progress.start(f"Fetching {requirement}", total=download_bytes) as task:
            meter = GrowthMeter(task, lambda: largest_file(target, scratch), total=download_bytes)
            _run(tool, tool.command(requirement, target, scratch), requirement, work, meter)
        with open_contents(target, requirement=requirement) as contents:
            yield contents
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _run(tool: PackageTool, command: list[str], requirement: str, work: Path, meter: GrowthMeter) -> None:
    scratch = str(work / "scratch")
    environment = {
        **os.environ,
        "TMPDIR": scratch,
        "TEMP": scratch,
        "TMP": scratch,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
    }
    log_path = work / "log"
    with log_path.open("wb") as log:
        try:
            # run inside our own folder: "python -m pip" would import a pip.py of the user's current one
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work, env=environment
            )
        except OSError as cause:
            raise DownloadError(f"{tool.name} could not be started: {cause}") from cause
        try:
            while True:
                try:
                    code = process.wait(timeout=POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    meter.poll()
        finally:
            _stop(process)
    if code != 0:
        said = _what_went_wrong(log_path.read_text("utf-8", errors="replace"))
        raise DownloadError(f"{tool.name} could not fetch {requirement} (exit code {code}): {said}")
    meter.finish()


def _what_went_wrong(log: str) -> str:
    """The errors in what a tool said, or the end of it if it marked nothing as an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return "; ".join(errors or lines[-_TAIL_LINES:]) or "it said nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout=_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pip_command(requirement: str, target: Path, scratch: Path) -> list[str]:
    del scratch  # pip is told by TMPDIR
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-cache-dir"),
        *("--progress-bar", "off", "--no-deps", "--only-binary", ":all:", "--dest", str(target), requirement),
    ]


def _uv_command(uv: str, requirement: str, target: Path, scratch: Path) -> list[str]:
    return [
        *(uv, "pip", "install", "--quiet", "--no-progress", "--cache-dir", str(scratch)),
        *("--python", sys.executable, "--no-deps", "--only-binary", ":all:", "--target", str(target)),
        requirement,
    ]
