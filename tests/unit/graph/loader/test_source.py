import os
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_models import model, node, weight
from onnxgen.errors import ModelFileError, ModelNotFoundError
from onnxgen.graph.loader import load_graph

MADE = model([node("Add", "x w", "y")], initializers=[weight("w", 3, 4)])


def weights_of(source):
    return load_graph(source).model.graph.initializers["w"].const_value.numpy().tolist()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_every_kind(kind):
    loaded = load_graph(kind(MADE.SerializeToString()))
    assert loaded.folder is None and loaded.origin == "model given as bytes"
    assert [n.op_type for n in loaded.model.graph] == ["Add"]


def test_paths_with_spaces_and_other_alphabets(tmp_path):
    path = tmp_path / "Željko 模型 v1" / "a..b.onnx"
    path.parent.mkdir()
    onnx.save(MADE, path)
    loaded = load_graph(path)
    assert loaded.folder == path.parent and loaded.origin == str(path)
    assert weights_of(str(path)) == [3, 4]


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    onnx.save(MADE, tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    loaded = load_graph("m.onnx")
    monkeypatch.chdir(os.sep)
    assert loaded.folder == tmp_path and Path(loaded.origin).is_absolute()


@pytest.mark.parametrize("suffix", [".textproto", ".pbtxt", ".json", ".onnxtxt"])
def test_text_encodings_by_suffix(tmp_path, suffix):
    path = tmp_path / f"m{suffix}"
    if suffix == ".onnxtxt":
        path.write_text(onnx.printer.to_text(MADE), encoding="utf-8")
    else:
        onnx.save(MADE, path)
    assert weights_of(path) == [3, 4]
    path.write_text("{ nonsense", encoding="utf-8")
    with pytest.raises(ModelFileError, match="cannot be read as"):
        load_graph(path)


def test_protobufs_and_models_in_memory_are_left_as_they_are():
    made = model([node("Constant", "", "c", value_float=1.0), node("Add", "x c", "y")])
    before = made.SerializeToString(deterministic=True)
    load_graph(made)
    assert made.SerializeToString(deterministic=True) == before

    array = np.ones(2, np.float32)
    in_memory = ir.from_proto(made)
    in_memory.graph.register_initializer(ir.Value(name="v", const_value=ir.Tensor(array, name="v")))
    loaded = load_graph(in_memory)
    assert [n.op_type for n in in_memory.graph] == ["Constant", "Add"] and list(
        in_memory.graph.initializers
    ) == ["v"]
    assert loaded.model is not in_memory
    assert np.shares_memory(loaded.model.graph.initializers["v"].const_value.numpy(), array)


def test_attributes_and_inner_graphs_of_models_in_memory_share_their_tensors():
    array = np.arange(3, dtype=np.float32)
    constant = ir.node("Constant", [], {"value": ir.Tensor(array)}, outputs=[ir.Value(name="c")])
    graph = ir.Graph([], constant.outputs, nodes=[constant], opset_imports={"": 17}, name="g")
    loaded = load_graph(ir.Model(graph, ir_version=10))
    assert np.shares_memory(loaded.model.graph.initializers["c"].const_value.numpy(), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x08", "not an ONNX file or was cut short"),
        (b"", "holds no graph"),
        (b"\x08\x0a", "holds no graph"),
    ],
)
def test_what_is_not_a_model(content, message):
    with pytest.raises(ModelFileError, match=message):
        load_graph(content)


def test_files_that_are_not_there_or_not_theirs(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"there is no file .*none\.onnx"):
        load_graph(tmp_path / "none.onnx")
    with pytest.raises(ModelFileError, match="is a folder"):
        load_graph(tmp_path)
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(ModelFileError, match="is empty"):
        load_graph(tmp_path / "empty.onnx")
    pointer = tmp_path / "pointer.onnx"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\n", encoding="utf-8")
    with pytest.raises(ModelFileError, match="Git LFS pointer"):
        load_graph(pointer)


def test_every_way_to_cut_a_file_is_told_by_its_name(tmp_path):
    content = MADE.SerializeToString()
    for length in range(1, len(content)):
        path = tmp_path / "cut.onnx"
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"cut\.onnx"):
            load_graph(path)


def test_other_objects_are_not_models():
    with pytest.raises(TypeError, match="not int"):
        load_graph(3)  # type: ignore[arg-type]
