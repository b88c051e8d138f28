"""Files of model folders: useful errors, confinement, all or nothing."""

import os
import sys
from pathlib import Path

import pytest

from onnxgen.errors import CheckpointError, ModelFileError, TokenizerError
from onnxgen.foundations.files import (
    atomic_directory,
    atomic_file,
    check_file,
    check_relative,
    confined,
    is_present,
    read_json,
    read_text,
)

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")


class TestCheckFile:
    def test_a_good_file_comes_back(self, tmp_path):
        path = tmp_path / "Željko 模型.bin"
        path.write_bytes(b"x")
        assert check_file(path) == path

    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(ModelFileError, match=r"weights\.bin does not exist"):
            check_file(tmp_path / "weights.bin")

    def test_a_folder_is_no_file(self, tmp_path):
        with pytest.raises(ModelFileError, match="is a folder, expected a file"):
            check_file(tmp_path)

    def test_zero_bytes_are_named(self, tmp_path):
        (tmp_path / "m.onnx").touch()
        with pytest.raises(ModelFileError, match=r"m\.onnx is empty \(0 bytes\)"):
            check_file(tmp_path / "m.onnx")

    def test_an_lfs_pointer_says_what_to_do(self, tmp_path):
        path = tmp_path / "m.onnx"
        path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
        with pytest.raises(ModelFileError, match="git lfs pull"):
            check_file(path)

    @links
    def test_a_link_that_leads_nowhere_says_so(self, tmp_path):
        (tmp_path / "m.onnx").symlink_to("blobs/abc")
        assert is_present(tmp_path / "m.onnx")
        assert not is_present(tmp_path / "other")
        with pytest.raises(ModelFileError, match=r"m\.onnx is a link to blobs.abc, which does not exist"):
            check_file(tmp_path / "m.onnx")

    @links
    def test_a_loop_of_links_cannot_be_opened(self, tmp_path):
        (tmp_path / "m.onnx").symlink_to("m.onnx")
        with pytest.raises(ModelFileError, match=r"m\.onnx cannot be opened"):
            check_file(tmp_path / "m.onnx")

    @pytest.mark.parametrize("name", ["x" * 5000, "a\0b"], ids=["long", "nul"])
    def test_names_that_cannot_be_are_refused(self, tmp_path, name):
        with pytest.raises(ModelFileError, match=r"cannot be opened|does not exist"):
            check_file(tmp_path / name)

    @pytest.mark.skipif(not Path("/dev/null").exists(), reason="needs a device file")
    def test_a_device_is_no_file(self):
        with pytest.raises(ModelFileError, match="is a device or a pipe"):
            check_file(Path("/dev/null"))

    def test_the_caller_chooses_the_class(self, tmp_path):
        with pytest.raises(CheckpointError):
            check_file(tmp_path / "none", error=CheckpointError)


class TestReadText:
    def test_a_byte_order_mark_is_dropped(self, tmp_path):
        path = tmp_path / "t"
        path.write_bytes("\ufeffé".encode())
        assert read_text(path) == "é"

    def test_other_encodings_are_refused(self, tmp_path):
        path = tmp_path / "t"
        path.write_bytes("é".encode("latin-1"))
        with pytest.raises(TokenizerError, match="is not UTF-8"):
            read_text(path, error=TokenizerError)

    def test_json_errors_name_file_line_and_column(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text('{\n  "a": 1,\n  "b": }')
        with pytest.raises(ModelFileError, match=r"config\.json is not valid JSON: line 3, column 8"):
            read_json(path)

    def test_json_with_a_byte_order_mark_is_read(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
        assert read_json(path) == {"a": 1}

    def test_a_truncated_file_is_refused(self, tmp_path):
        path = tmp_path / "config.json"
        path.write_text('{"a": [1, 2')
        with pytest.raises(ModelFileError, match="line 1"):
            read_json(path)


ESCAPES = ["../x", "a/../../x", "..", "a\\..\\..\\x", "..\\x", "a/..", "./../x"]
ABSOLUTE = ["/etc/passwd", "C:\\x", "C:x", "c:/x", "\\\\server\\share\\x", "\\x", "//x", "\\\\?\\C:\\x"]
HARMLESS = ["a.bin", "a..b.bin", "..a", "a..", "sub/a.bin", "sub\\a.bin", "./a.bin", "...", "é 空 x.bin"]


class TestConfinement:
    @pytest.mark.parametrize("name", ESCAPES)
    def test_steps_to_the_parent_are_refused(self, tmp_path, name):
        with pytest.raises(ModelFileError, match="leaves the model folder"):
            confined(tmp_path, name)

    @pytest.mark.parametrize("name", ABSOLUTE)
    def test_absolute_names_of_any_system_are_refused(self, tmp_path, name):
        with pytest.raises(ModelFileError, match="is absolute"):
            confined(tmp_path, name)

    @pytest.mark.parametrize("name", ["", " ", "a\0b"])
    def test_unusable_names_are_refused(self, tmp_path, name):
        with pytest.raises(ModelFileError, match="is not usable"):
            confined(tmp_path, name)

    @pytest.mark.parametrize("name", HARMLESS)
    def test_names_inside_are_allowed(self, tmp_path, name):
        assert confined(tmp_path, name).is_relative_to(tmp_path)

    def test_both_separators_mean_the_same(self, tmp_path):
        assert confined(tmp_path, "a\\b") == confined(tmp_path, "a/b") == tmp_path / "a" / "b"

    def test_the_message_says_where_the_name_stood(self):
        with pytest.raises(ModelFileError, match=r"genai_config\.json: model\.decoder: file name"):
            check_relative("/x", where="genai_config.json: model.decoder")

    @links
    def test_a_link_out_of_the_folder_is_refused(self, tmp_path):
        folder = tmp_path / "model"
        folder.mkdir()
        (tmp_path / "secret").write_text("s")
        (folder / "weights").symlink_to("../secret")
        with pytest.raises(ModelFileError, match="outside the model folder"):
            confined(folder, "weights")

    @links
    def test_a_linked_folder_out_of_the_folder_is_refused(self, tmp_path):
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "sub").symlink_to(tmp_path)
        with pytest.raises(ModelFileError, match="outside the model folder"):
            confined(folder, "sub/secret")

    @links
    def test_a_link_inside_the_folder_is_allowed(self, tmp_path):
        (tmp_path / "data").write_text("d")
        (tmp_path / "weights").symlink_to("data")
        assert confined(tmp_path, "weights").read_text() == "d"

    @links
    def test_the_folder_itself_may_be_a_link(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "w").write_text("d")
        (tmp_path / "linked").symlink_to("real")
        assert confined(tmp_path / "linked", "w").read_text() == "d"

    @links
    def test_a_loop_of_links_is_an_error_not_a_crash(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        try:
            path = confined(tmp_path, "a")
        except ModelFileError as error:
            assert "cannot be followed" in str(error)
        else:
            assert not path.exists()

    @links
    @pytest.mark.parametrize("below", ["", "cpu/int4"])
    def test_links_of_a_hub_cache_are_allowed(self, tmp_path, below):
        repo = tmp_path / "models--org--name"
        folder = repo / "snapshots" / "0123abc" / below
        (repo / "blobs").mkdir(parents=True)
        folder.mkdir(parents=True)
        (repo / "blobs" / "cafe").write_text("weights")
        up = os.path.relpath(repo / "blobs", folder)
        (folder / "model.onnx.data").symlink_to(f"{up}/cafe")
        assert confined(folder, "model.onnx.data").read_text() == "weights"

    @links
    def test_a_hub_cache_allows_only_its_blobs(self, tmp_path):
        repo = tmp_path / "models--org--name"
        folder = repo / "snapshots" / "0123abc"
        folder.mkdir(parents=True)
        (repo / "refs").mkdir()
        (repo / "refs" / "main").write_text("x")
        (folder / "a").symlink_to("../../refs/main")
        (folder / "b").symlink_to("../../blobs/../refs/main")
        for name in ("a", "b"):
            with pytest.raises(ModelFileError, match="outside"):
                confined(folder, name)


class TestAtomicDirectory:
    def test_it_appears_when_done(self, tmp_path):
        target = tmp_path / "new" / "out é"
        with atomic_directory(target) as work:
            (work / "f").write_text("1")
            assert not target.exists()
        assert (target / "f").read_text() == "1"
        assert list(target.parent.iterdir()) == [target]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
    def test_an_error_leaves_nothing(self, tmp_path, error):
        with pytest.raises(error), atomic_directory(tmp_path / "out") as work:
            (work / "f").write_text("1")
            raise error
        assert list(tmp_path.iterdir()) == []

    def test_an_error_keeps_what_was_there(self, tmp_path):
        target = tmp_path / "out"
        target.mkdir()
        (target / "old").write_text("old")
        with pytest.raises(KeyboardInterrupt), atomic_directory(target):
            raise KeyboardInterrupt
        assert (target / "old").read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_a_swap_that_fails_half_way_is_taken_back(self, tmp_path, monkeypatch, error):
        target = tmp_path / "out"
        target.mkdir()
        (target / "old").write_text("old")
        replace = Path.replace

        def failing(self, other):
            if self.name.endswith(".partial"):
                raise error
            return replace(self, other)

        with pytest.raises(error), atomic_directory(target):
            monkeypatch.setattr(Path, "replace", failing)
        monkeypatch.undo()
        assert (target / "old").read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_a_file_is_not_replaced_by_a_folder(self, tmp_path):
        (tmp_path / "out").write_text("mine")
        with (
            pytest.raises(ModelFileError, match="is a file, expected a folder"),
            atomic_directory(tmp_path / "out"),
        ):
            raise AssertionError("the block must not run")
        assert (tmp_path / "out").read_text() == "mine"

    def test_it_takes_the_place_of_the_old_one_whole(self, tmp_path):
        target = tmp_path / "out"
        target.mkdir()
        (target / "stale").write_text("old")
        with atomic_directory(target) as work:
            (work / "f").write_text("new")
            assert (target / "stale").exists()
        assert [path.name for path in target.iterdir()] == ["f"]
        assert list(tmp_path.iterdir()) == [target]

    @pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
    def test_its_mode_is_that_of_any_new_folder(self, tmp_path):
        (tmp_path / "plain").mkdir()
        with atomic_directory(tmp_path / "out"):
            pass
        assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


class TestAtomicFile:
    def test_it_appears_when_done(self, tmp_path):
        target = tmp_path / "new" / "f"
        with atomic_file(target) as work:
            work.write_text("1")
            assert not target.exists()
        assert target.read_text() == "1"
        assert list(target.parent.iterdir()) == [target]

    @pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
    def test_an_error_keeps_the_old_one(self, tmp_path, error):
        target = tmp_path / "f"
        target.write_text("old")
        with pytest.raises(error), atomic_file(target) as work:
            work.write_text("half")
            raise error
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]

    def test_it_takes_the_place_of_the_old_one(self, tmp_path):
        target = tmp_path / "f"
        target.write_text("old")
        with atomic_file(target) as work:
            work.write_text("new")
            assert target.read_text() == "old"
        assert target.read_text() == "new"

    @pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX")
    def test_its_mode_is_that_of_any_new_file(self, tmp_path):
        (tmp_path / "plain").touch()
        with atomic_file(tmp_path / "f"):
            pass
        assert (tmp_path / "f").stat().st_mode == (tmp_path / "plain").stat().st_mode
