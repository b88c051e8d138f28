import zipfile

import pytest

from onnxgen.catalog.contents import open_contents
from onnxgen.errors import DownloadError


def test_a_wheel_and_its_unpacked_form_hold_the_same(house, tmp_path):
    wheel = house.add("thing", {"thing/a.txt": b"hello", "thing/sub/b.bin": bytes(5000)})
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    for folder in (house.folder, unpacked):
        with open_contents(folder, requirement="thing") as contents:
            assert dict(contents.sizes) == {"thing/a.txt": 5, "thing/sub/b.bin": 5000}
            with contents.open("thing/a.txt") as file:
                assert file.read() == b"hello"
            with pytest.raises(
                DownloadError, match=r"has no file 'nope'; its largest files: thing/sub/b.bin"
            ):
                contents.open("nope").__enter__()


@pytest.mark.parametrize("name", ["../evil.gguf", "a/../../evil.gguf", "/abs/evil.gguf", "C:evil.gguf"])
def test_names_that_leave_their_folder_are_refused(house, name):
    house.add("evil", {"evil/ok.txt": b"x", name: b"gguf"})
    with (
        pytest.raises(DownloadError, match="would land outside its folder"),
        open_contents(house.folder, requirement="evil"),
    ):
        pass


def test_links_of_an_unpacked_package_are_left_out(tmp_path):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / "real.txt").write_bytes(b"x")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret")
    with open_contents(folder, requirement="thing") as contents:
        assert list(contents.sizes) == ["real.txt"]


def test_broken_bytes_are_found_while_reading(house):
    wheel = house.add("thing", {"thing/a.bin": bytes(range(256)) * 50})
    raw = bytearray(wheel.read_bytes())
    raw[60:80] = bytes(20)
    wheel.write_bytes(raw)
    with (
        open_contents(house.folder, requirement="thing") as contents,
        pytest.raises(DownloadError, match=r"thing/a.bin in .*whl is broken"),
        contents.open("thing/a.bin") as file,
    ):
        file.read()


def test_two_wheels_are_one_too_many(house):
    house.add("a", {"a/x": b""})
    house.add("b", {"b/x": b""})
    with (
        pytest.raises(DownloadError, match=r"expected one wheel for a, got a-1.0"),
        open_contents(house.folder, requirement="a"),
    ):
        pass
