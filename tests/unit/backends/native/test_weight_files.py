"""Weights are read where the plan says, and a file that is not what it was is named."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from onnxgen.backends.native.plan import Stored
from onnxgen.backends.native.weight_files import WeightFiles
from onnxgen.errors import ModelFileError


@pytest.fixture
def files(tmp_path: Path):
    (tmp_path / "weights.bin").write_bytes(b"abcd" + np.arange(6, dtype=np.float32).tobytes())
    opened = WeightFiles(tmp_path, "a model")
    yield opened
    opened.close()


def test_elements_are_read_and_mapped_alike(files: WeightFiles):
    stored = Stored("float32", (2, 3), "weights.bin", 4)
    for array in (files.read(stored), files.mapped(stored)):
        assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_elements_that_are_not_aligned_are_read(files: WeightFiles):
    assert files.mapped(Stored("uint16", (1,), "weights.bin", 1)).tolist() == [
        int.from_bytes(b"bc", "little")
    ]


def test_inline_elements_need_no_file(files: WeightFiles):
    values = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert np.array_equal(files.read(Stored("bfloat16", (2,), inline=values.tobytes())), values)


def test_a_short_file_is_named(files: WeightFiles):
    for load in (files.read, files.mapped):
        with pytest.raises(ModelFileError, match=r"weights\.bin ends before byte 32"):
            load(Stored("float32", (7,), "weights.bin", 4))


def test_a_file_outside_of_the_folder_is_refused(files: WeightFiles):
    for name in ("../weights.bin", "/etc/hostname", "missing.bin"):
        with pytest.raises(ModelFileError):
            files.read(Stored("uint8", (1,), name))
