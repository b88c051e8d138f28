"""The append-only file of tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from onnxgen.builder.data_file import DataFile
from onnxgen.foundations.progress import SILENT


def _open(path: Path) -> DataFile:
    return DataFile(path, task=SILENT.start("", total=None))


def test_tensors_read_back_what_was_appended(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(7, dtype=np.float32),
        "b": np.arange(300_000, dtype=np.int64).reshape(500, 600),
        "c": np.zeros((0, 4), np.float16),
        "d": np.array([[1, 2], [3, 4]], np.uint8).T,
    }
    with _open(tmp_path / "data") as data:
        tensors = {
            name: data.append(name, [array], dtype=ir.DataType.from_numpy(array.dtype), shape=array.shape)
            for name, array in arrays.items()
        }
        alias = data.alias("again", start=tensors["b"].offset, dtype=ir.DataType.INT64, shape=(300_000,))
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name].numpy(), array)
    np.testing.assert_array_equal(alias.numpy(), arrays["b"].reshape(-1))
    assert tensors["b"].offset % 4096 == 0 and tensors["d"].offset % 64 == 0


def test_pieces_that_do_not_fill_the_shape_are_a_defect(tmp_path: Path) -> None:
    with _open(tmp_path / "data") as data, pytest.raises(AssertionError, match="12 bytes for shape"):
        data.append("x", [np.zeros(3, np.float32)], dtype=ir.DataType.FLOAT, shape=(4,))


def test_an_existing_file_is_not_appended_to(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        _open(tmp_path / "data")
