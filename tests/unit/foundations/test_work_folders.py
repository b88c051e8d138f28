import subprocess
import sys
from pathlib import Path

import pytest

from onnxgen.foundations.files import atomic_directory
from onnxgen.foundations.work_folders import ASIDE, OLD, PARTIAL, remove_leftovers, work_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")

KILLED = """
import os, sys
from pathlib import Path
from onnxgen.foundations.files import atomic_directory
with atomic_directory(Path(sys.argv[1])) as work:
    (work / "half").write_text("x")
    print("ready", flush=True)
    sys.stdin.read()
    os._exit(1)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def other(tmp_path):
    """Another process in the middle of its work."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, tmp_path / "mo del.é"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, other):
    target = tmp_path / "mo del.é"
    other.kill()
    other.wait()
    (left,) = names(tmp_path)
    assert left.endswith(PARTIAL)
    with atomic_directory(target) as work:
        (work / "whole").write_text("x")
    assert names(tmp_path) == [target.name]
    assert names(target) == ["whole"]


def test_what_another_process_works_in_is_left_alone(tmp_path, other):
    target = tmp_path / "mo del.é"
    (busy,) = names(tmp_path)
    remove_leftovers(target)
    with atomic_directory(target) as work:
        (work / "whole").write_text("x")
    assert names(tmp_path) == sorted([busy, target.name])


def test_an_old_version_returns_to_its_place(tmp_path):
    target = tmp_path / "model"
    aside = tmp_path / f".model.abcdefgh{ASIDE}"
    (aside / OLD).mkdir(parents=True)
    (aside / OLD / "file").write_text("old")
    remove_leftovers(target)
    assert names(tmp_path) == ["model"]
    assert (target / "file").read_text() == "old"


@pytest.mark.parametrize(
    "name",
    [
        ".other.abcdefgh.partial",
        ".model.abcdefgh.lock",
        "model.abcdefgh.partial",
        ".model.abc.partial",
        ".model.stamp.json",
    ],
)
def test_other_folders_are_not_touched(tmp_path, name):
    (tmp_path / name).mkdir()
    remove_leftovers(tmp_path / "model")
    assert names(tmp_path) == [name]


def test_links_are_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / f".model.abcdefgh{PARTIAL}").symlink_to("precious")
    remove_leftovers(tmp_path / "model")
    assert (tmp_path / "precious").exists()


def test_the_only_copy_is_never_removed(tmp_path):
    with pytest.raises(ZeroDivisionError), work_folder(tmp_path / "model", ASIDE) as aside:
        (aside / OLD).mkdir()
        raise ZeroDivisionError
    assert (aside / OLD).exists()


def test_nothing_to_remove_is_no_error():
    remove_leftovers(Path("/nowhere/at/all"))
