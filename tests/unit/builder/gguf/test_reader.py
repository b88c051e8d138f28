from __future__ import annotations

import struct
import tracemalloc

import numpy as np
import pytest

from gguf_by_hand import (
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    RawTensor,
    Typed,
    floats,
    write_gguf,
)
from onnxgen.builder.gguf.reader import read_gguf
from onnxgen.errors import CheckpointError


@pytest.mark.parametrize("version", [2, 3])
def test_every_type_of_value_comes_back(tmp_path, version):
    values = {
        "u8": Typed(UINT8, 200), "i8": Typed(INT8, -100), "u16": Typed(UINT16, 60000), "i16": Typed(INT16, -30000),
        "u32": 4_000_000_000, "i32": Typed(INT32, -5), "u64": Typed(UINT64, 2**63), "i64": Typed(INT64, -(2**62)),
        "f32": 0.5, "f64": Typed(FLOAT64, 0.1), "yes": True, "no": False, "text": "é 空", "empty": "",
    }  # fmt: skip
    file = read_gguf(write_gguf(tmp_path / "a.gguf", values, version=version))
    assert file.version == version
    plain = {key: value.value if isinstance(value, Typed) else value for key, value in values.items()}
    assert file.metadata == plain
    assert type(file.metadata["yes"]) is bool and type(file.metadata["f32"]) is float


def test_arrays_come_back(tmp_path):
    file = read_gguf(
        write_gguf(
            tmp_path / "a.gguf",
            {
                "ints": Typed(INT32, [1, -2, 3]),
                "floats": [0.5, -0.25],
                "flags": [True, False],
                "words": ["a", "", "空"],
                "none": Typed(STRING, []),
                "nested": [[1, 2], [3]],
            },
        )
    )
    assert file.metadata["ints"].dtype == np.int32 and file.metadata["ints"].tolist() == [1, -2, 3]
    assert file.metadata["floats"].tolist() == [0.5, -0.25]
    assert file.metadata["flags"].tolist() == [True, False]
    assert file.metadata["words"] == ["a", "", "空"]
    assert file.metadata["none"] == []
    assert [list(each) for each in file.metadata["nested"]] == [[1, 2], [3]]


def test_text_that_is_not_utf8_stays_apart_and_printable(tmp_path):
    file = read_gguf(write_gguf(tmp_path / "a.gguf", {"tokens": [b"\xff", b"\xfe", "a"]}))
    assert file.metadata["tokens"] == ["\\xff", "\\xfe", "a"]


@pytest.mark.parametrize("alignment", [32, 64, 8])
def test_tensors_lie_where_the_alignment_says(tmp_path, alignment):
    path = write_gguf(
        tmp_path / "a.gguf",
        {"general.alignment": alignment},
        {"a": floats([1, 2, 3]), "b": floats(np.arange(6).reshape(2, 3)), "c": floats(7.0)},
        alignment=alignment,
    )
    file = read_gguf(path)
    assert list(file.tensors) == ["a", "b", "c"]
    b, c = file.tensors["b"], file.tensors["c"]
    assert b.shape == (2, 3) and b.type_name == "F32" and c.shape == ()
    assert file.read_bytes(b, 4, 8).view(np.float32).tolist() == [1, 2]
    assert file.read_bytes(c, 0, 4).view(np.float32).tolist() == [7]


def test_non_ascii_paths_work(tmp_path):
    folder = tmp_path / "Željko Håkansson" / "模型 v1"
    folder.mkdir(parents=True)
    file = read_gguf(write_gguf(folder / "é 空.gguf", {"a": 1}, {"t": floats([1.0])}))
    assert file.read_bytes(file.tensors["t"], 0, 4).size == 4


def sample(tmp_path):
    return write_gguf(
        tmp_path / "whole.gguf",
        {
            "general.architecture": "llama",
            "words": ["ab", "c"],
            "numbers": [1, 2, 3],
            "deep": [[1], [2]],
            "x": 0.5,
        },
        {"one": floats(np.ones((2, 3))), "two": floats(np.ones(5))},
    )


def test_a_file_cut_off_at_any_byte_says_so(tmp_path):
    raw = sample(tmp_path).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(len(raw)):
        cut.write_bytes(raw[:length])
        with pytest.raises(CheckpointError, match=r"cut\.gguf"):
            read_gguf(cut)


def test_a_file_with_any_byte_changed_is_read_or_refused(tmp_path):
    raw = bytearray(sample(tmp_path).read_bytes())
    changed = tmp_path / "changed.gguf"
    outcomes = set()
    tracemalloc.start()
    try:
        for at in range(len(raw)):
            for value in (0, 0xFF, raw[at] ^ 0x80):
                content = raw.copy()
                content[at] = value
                changed.write_bytes(content)
                try:
                    read_gguf(changed)
                    outcomes.add("read")
                except CheckpointError as error:
                    assert "changed.gguf" in str(error)
                    outcomes.add("refused")
        assert tracemalloc.get_traced_memory()[1] < 2e6  # counts of 2**64 allocate nothing
    finally:
        tracemalloc.stop()
    assert outcomes == {"read", "refused"}


def test_cut_off_tensors_are_named_with_both_sizes(tmp_path):
    path = sample(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(
        CheckpointError, match=rf"'two' \(F32, \[5\]\) ends at byte {len(raw)}, .* has {len(raw) - 1} bytes"
    ):
        read_gguf(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04" + bytes(60), "not a GGUF file: begins with b'PK"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "GGUF version 1; versions 2 and 3 can be read"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "GGUF version 4"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0), f"{2**60} tensors cannot fit a file of 24 bytes"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), f"{2**63} metadata entries cannot fit"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62) + bytes(99), "ends inside a metadata key"),
    ],
)
def test_what_is_not_a_readable_gguf_is_said(tmp_path, content, message):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_gguf(path)


def test_a_missing_file_and_a_folder_are_said(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        read_gguf(tmp_path / "no.gguf")
    with pytest.raises(CheckpointError, match="is a folder"):
        read_gguf(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "tensors", "message"),
    [
        ([("a", 1), ("a", 2)], [], "metadata key 'a' occurs twice"),
        ([], [("t", floats([1])), ("t", floats([1]))], "tensor 't' occurs twice"),
        ({"general.alignment": 48}, {}, "general.alignment is 48, must be a power of two"),
        ({"general.alignment": "32"}, {}, "general.alignment is '32'"),
        ({b"\xff": 1}, {}, "a metadata key is not UTF-8"),
        ({"a": [[[[[1]]]]]}, {}, "'a' has arrays nested more than 4 deep"),
        ({}, {"t": RawTensor((1, 1, 1, 1, 1), 0, bytes(4))}, "'t' has 5 dimensions, at most 4"),
        ({}, {"t": RawTensor((2**40, 0), 0, bytes(4))}, r"'t' has shape \[1099511627776, 0\], which holds"),
        ({}, {"t": RawTensor((1,), 0, bytes(4), offset=4)}, "'t' begins at 4, not a multiple of 32"),
        ({}, {"t": RawTensor((1,), 0, bytes(4), offset=2**60)}, "'t' .* ends at byte"),
        ({}, {"t": RawTensor((2**40, 2**40), 0, bytes(4))}, "'t' .* ends at byte"),
        ({}, {"t": RawTensor((2, 33), 2, bytes(64))}, "rows of 33 values, not a multiple of the 32"),
    ],
)
def test_contradictions_are_refused(tmp_path, metadata, tensors, message):
    with pytest.raises(CheckpointError, match=message):
        read_gguf(write_gguf(tmp_path / "bad.gguf", metadata, tensors))


def test_unknown_value_types_are_named(tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IQ", 77, 0))
    with pytest.raises(CheckpointError, match="'k' has the unknown type 77"):
        read_gguf(path)
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 77, 0))
    with pytest.raises(CheckpointError, match="'k' is an array of the unknown type 77"):
        read_gguf(path)


def test_tensors_of_unknown_types_do_not_keep_a_file_from_opening(tmp_path):
    file = read_gguf(write_gguf(tmp_path / "a.gguf", {}, {"t": RawTensor((3,), 99, bytes(4))}))
    assert file.tensors["t"].kind is None
    assert file.tensors["t"].type_name == "unknown type 99"


def test_a_file_that_shrinks_after_opening_is_said(tmp_path):
    path = sample(tmp_path)
    file = read_gguf(path)
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(CheckpointError, match="'two' ends after 14 bytes, expected at least 20"):
        file.read_bytes(file.tensors["two"], 0, 20)


def test_the_library_reads_the_same(tmp_path):
    """Our table of sizes and the library's agree, for every type both know."""
    from gguf.constants import GGML_QUANT_SIZES

    from onnxgen.builder.gguf.ggml_types import GGML_TYPES

    theirs = {int(kind): (kind.name, *sizes) for kind, sizes in GGML_QUANT_SIZES.items()}
    ours = {number: (kind.name, kind.block_size, kind.block_bytes) for number, kind in GGML_TYPES.items()}
    assert ours == {number: theirs[number] for number in ours}
    assert UINT32 == 4
