import sys
from types import SimpleNamespace

import pytest

from onnxgen.catalog.hub import HuggingFaceHub
from onnxgen.errors import DownloadError

huggingface_hub = pytest.importorskip("huggingface_hub")
pytest.importorskip("huggingface_hub.constants")
pytest.importorskip("huggingface_hub.utils")


class GatedRepoError(Exception):
    """Named as the library names it."""


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The installed library with its network cut off: a test puts what it wants in the place of it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return monkeypatch


def test_sizes_are_those_of_the_repository(library):
    def model_info(self, repo, *, revision, files_metadata):
        assert (repo, revision, files_metadata) == ("org/repo", "v1", True)
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename="a.gguf", size=5)])

    library.setattr(huggingface_hub.HfApi, "model_info", model_info)
    assert HuggingFaceHub().sizes("org/repo", revision="v1") == {"a.gguf": 5}


def test_a_download_is_watched_as_it_grows(library, tmp_path, progress):
    def snapshot_download(repo, *, revision, allow_patterns, local_dir):
        assert allow_patterns == ["a.gguf"] and huggingface_hub.utils.are_progress_bars_disabled()
        (local_dir / "a.gguf").write_bytes(bytes(1000))
        return str(local_dir)

    library.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    were_disabled = huggingface_hub.utils.are_progress_bars_disabled()
    path = HuggingFaceHub().fetch(
        "org/repo", ["a.gguf"], revision=None, folder=tmp_path, total_bytes=1000, progress=progress
    )
    assert path == tmp_path
    assert [(task.done, task.total) for task in progress.tasks] == [(1000, 1000)]
    assert huggingface_hub.utils.are_progress_bars_disabled() == were_disabled


def test_a_missing_file_is_named(library, tmp_path, progress):
    library.setattr(huggingface_hub, "snapshot_download", lambda repo, **options: str(tmp_path))
    with pytest.raises(DownloadError, match=r"hf:org/repo has no file a.gguf"):
        HuggingFaceHub().fetch(
            "org/repo", ["a.gguf"], revision=None, folder=None, total_bytes=1, progress=progress
        )


def test_errors_of_the_library_name_the_repository(library, tmp_path, progress):
    def snapshot_download(repo, **options):
        raise GatedRepoError("401 Client Error.\n\nAccess is restricted.")

    library.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(
        DownloadError, match=r"hf:org/repo: GatedRepoError: 401 .* log in with 'hf auth login'"
    ):
        HuggingFaceHub().fetch(
            "org/repo", ["a.gguf"], revision=None, folder=None, total_bytes=1, progress=progress
        )


def test_nothing_is_cached_before_anything_was_fetched(library, tmp_path):
    assert HuggingFaceHub().cached("org/nothing-of-this-name", revision=None) is None


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DownloadError, match=r"pip install 'onnxgen\[hub\]'"):
        HuggingFaceHub().sizes("org/repo", revision=None)
