"""Room on disk."""

import pytest

from onnxgen.errors import BuildError, DownloadError
from onnxgen.foundations.disk import format_bytes, free_disk_bytes, require_disk_space, size_on_disk


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (98_400_000, "98.4 MB"),
        (2e9, "2 GB"),
        (3e12, "3 TB"),
        (5e15, "5e+03 TB"),
    ],
)
def test_bytes_as_people_read_them(count, text):
    assert format_bytes(count) == text


def test_sizes_of_files_and_folders(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(bytes(10))
    (tmp_path / "a" / "b" / "two").write_bytes(bytes(20))
    (tmp_path / "a" / "gone").symlink_to(tmp_path / "nowhere")
    assert size_on_disk(tmp_path) == 30
    assert size_on_disk(tmp_path / "a" / "one") == 10
    assert size_on_disk(tmp_path / "nowhere") == 0


def test_a_path_that_is_not_there_yet_counts_for_its_parent(tmp_path):
    free = free_disk_bytes(tmp_path / "a" / "b" / "c")
    assert free > 0
    # other programs write too, so only nearly the same
    assert abs(free - free_disk_bytes(tmp_path)) < 1 << 30


def test_enough_room_is_silent(tmp_path):
    require_disk_space(tmp_path, 1, "a byte")


def test_too_little_room_says_both_numbers(tmp_path):
    with pytest.raises(BuildError, match=r"the int4 model needs 1\.15e\+06 TB in .*out, .* are free"):
        require_disk_space(tmp_path / "out", 1 << 60, "the int4 model")


def test_the_caller_chooses_the_class(tmp_path):
    with pytest.raises(DownloadError):
        require_disk_space(tmp_path, 1 << 60, "x", error=DownloadError)
