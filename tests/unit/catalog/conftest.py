"""Wheels made on the spot, and an installer that serves them from a folder."""

import hashlib
import sys
import zipfile
from pathlib import Path

import pytest

from onnxgen.catalog.entries import CatalogEntry, HubSource, PackagePart, PackageSource
from onnxgen.catalog.packages import PackageTool
from onnxgen.foundations.runtime_config import RuntimeConfig

# what it is asked for is written to a log, so that tests see how often something was fetched
_INSTALLER = """
import os, shutil, sys, time
from pathlib import Path
mode, house, requirement, target, scratch = sys.argv[1:]
house, target = Path(house), Path(target)
with (house / "asked.log").open("a") as log:
    log.write(requirement + "\\n")
wheel = house / (requirement.partition("==")[0].replace("-", "_") + "-1.0-py3-none-any.whl")
if mode == "fail" or not wheel.exists():
    sys.exit(f"ERROR: No matching distribution found for {requirement}")
if mode == "hang":
    (target / "half.whl").write_bytes(wheel.read_bytes()[:1000])
    (house / "started").touch()
    time.sleep(60)
if mode == "slow":
    time.sleep(0.4)
if mode == "truncate":
    (target / wheel.name).write_bytes(wheel.read_bytes()[:-60])
elif mode == "unpack":
    shutil.unpack_archive(wheel, target, "zip")
elif mode != "nothing":
    staged = Path(os.environ["TMPDIR"]) / wheel.name
    shutil.copy(wheel, staged)
    shutil.copy(staged, target / wheel.name)
"""


class WheelHouse:
    """A folder of small wheels, and installers that fetch from it in good and bad ways."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, package: str, files: dict[str, bytes]) -> Path:
        path = self.folder / f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path

    def tool(self, mode: str = "copy") -> PackageTool:
        def command(requirement: str, target: Path, scratch: Path) -> list[str]:
            arguments = [mode, self.folder, requirement, target, scratch]
            return [sys.executable, "-c", _INSTALLER, *map(str, arguments)]

        return PackageTool("fake installer", command)

    @property
    def asked(self) -> list[str]:
        log = self.folder / "asked.log"
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def house(tmp_path):
    return WheelHouse(tmp_path / "wheels")


@pytest.fixture
def config(tmp_path):
    # spaces and letters outside ASCII must work everywhere
    return RuntimeConfig(cache_dir=tmp_path / "Zwischen speicher é 模型")


@pytest.fixture
def content():
    return bytes(range(256)) * 777 + b"end"


@pytest.fixture
def entry(house, content):
    """A model in two parts, and nothing else, unless a test takes its hub source."""
    cut = len(content) // 3
    house.add("tiny-part1", {"tiny_part1/data/tiny.gguf.part00": content[:cut]})
    house.add(
        "tiny-part2", {"tiny_part2/data/tiny.gguf.part01": content[cut:], "tiny_part2/__init__.py": b""}
    )
    parts = tuple(
        PackagePart(f"tiny-part{i + 1}", "1.0", f"tiny_part{i + 1}/data/tiny.gguf.part0{i}", 100_000)
        for i in range(2)
    )
    return CatalogEntry(
        "tiny",
        "a tiny model",
        "MIT",
        "tiny.gguf",
        len(content),
        hashlib.sha256(content).hexdigest(),
        (PackageSource(parts), HubSource("org/tiny", "tiny.gguf")),
    )


class RecordingProgress:
    """Keeps what was reported: description, total and amount of each piece of work."""

    def __init__(self):
        self.tasks = []

    def start(self, description, *, total, unit="bytes"):
        task = _RecordedTask(description, total, unit)
        self.tasks.append(task)
        return task


class _RecordedTask:
    def __init__(self, description, total, unit):
        self.description, self.total, self.unit = description, total, unit
        self.done = 0
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.ended = True

    def advance(self, amount):
        assert amount > 0
        self.done += amount


@pytest.fixture
def progress():
    return RecordingProgress()
