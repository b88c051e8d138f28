import importlib.util
import shutil
import sys

import pytest

from onnxgen.catalog import packages
from onnxgen.catalog.packages import available_tools


def commands(tools, tmp_path):
    return {
        tool.name: tool.command("thing==1.0", tmp_path / "target", tmp_path / "scratch") for tool in tools
    }


def test_pip_comes_before_uv(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert [tool.name for tool in available_tools()] == ["pip", "uv"]


def test_uv_stands_in_where_pip_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    (command,) = commands(available_tools(), tmp_path).values()
    assert command[:3] == ["/bin/uv", "pip", "install"]
    assert "--no-deps" in command and command[-1] == "thing==1.0"


def test_there_may_be_no_tool(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert available_tools() == ()


def test_pip_is_asked_by_name_without_dependencies_or_builds(tmp_path):
    command = commands(available_tools()[:1], tmp_path)["pip"]
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in command and command[-1] == "thing==1.0"
    assert command[command.index("--only-binary") + 1] == ":all:"


def test_a_pip_module_in_the_current_folder_is_not_run(house, tmp_path, monkeypatch, progress):
    """``python -m`` looks into the current folder first, so the installer runs in one of ours."""
    (tmp_path / "pip.py").write_text("raise SystemExit('the wrong pip')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(house.folder))
    add_installable_wheel(house)
    work = tmp_path / "work"
    work.mkdir()
    with packages.fetched_package(
        "tiny-thing==1.0", tool=available_tools()[0], folder=work, download_bytes=400, progress=progress
    ) as contents:
        assert contents.sizes["tiny_thing/data.bin"] == 3
    assert list(work.iterdir()) == []
    assert progress.tasks[0].done == 400


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (
            "WARNING: x\n  ERROR: no version\nERROR: nothing found\n[notice] y",
            "ERROR: no version; ERROR: nothing found",
        ),
        ("\n".join(f"line {i}" for i in range(20)), "; ".join(f"line {i}" for i in range(14, 20))),
        ("  \n", "it said nothing"),
    ],
)
def test_what_an_installer_said_is_boiled_down(log, said):
    assert packages._what_went_wrong(log) == said


def add_installable_wheel(house):
    info = "tiny_thing-1.0.dist-info"
    house.add(
        "tiny-thing",
        {
            "tiny_thing/data.bin": b"abc",
            f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\nRequires-Dist: nope\n",
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": b"",
        },
    )
