import os
import resource
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from onnx_models import graph, model, node
from onnxgen.errors import InvalidGraphError, ModelFileError
from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.loader import load_graph

DATA = np.arange(6, dtype=np.float32)
CONTENT = DATA.tobytes()


def external(name="w", location="w.bin", dtype=1, dims=(6,), **entries):
    tensor = onnx.TensorProto(name=name, data_type=dtype, dims=dims, data_location=onnx.TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def saved(folder, *tensors, content=CONTENT, location="w.bin"):
    folder.mkdir(parents=True, exist_ok=True)
    if content is not None:
        (folder / location).write_bytes(content)
    path = folder / "model.onnx"
    path.write_bytes(model([], inputs="", outputs="", initializers=tensors).SerializeToString())
    return path


def loaded(path, name="w"):
    return tensor_array(load_graph(path).model.graph.initializers[name].const_value)


def test_data_are_mapped_and_not_copied(tmp_path):
    path = saved(tmp_path, external(), external("v", dims=(2, 1), offset=8, length=8))
    made = load_graph(path).model.graph.initializers
    w, v = (made[name].const_value.numpy() for name in "wv")
    assert w.tolist() == DATA.tolist() and v.tolist() == [[2], [3]]
    assert np.shares_memory(w, v) and not w.flags.writeable


@pytest.mark.parametrize("location", ["a..b.bin", "Gewichte é 空.bin", "sub/w.bin", "./w.bin", ".hidden"])
def test_names_of_files_that_stay_in_the_folder(tmp_path, location):
    (tmp_path / "sub").mkdir()
    assert loaded(saved(tmp_path, external(location=location), location=location)).tolist() == DATA.tolist()


@pytest.mark.parametrize(
    ("location", "message"),
    [("../w.bin", "leaves the model folder"), ("sub/../../w.bin", "leaves"), ("/etc/hostname", "is absolute"),
     ("..\\w.bin", "leaves"), ("C:\\w.bin", "is absolute"), ("none.bin", "does not exist"), ("a\0b", "not usable"),
     ("sub", "is a folder"), ("pipe", "a device or a pipe"), ("out.bin", "outside the model folder"),
     ("outside/w.bin", "outside the model folder"), ("circle", "cannot be followed|does not exist|outside")],
)  # fmt: skip
def test_files_outside_of_the_folder_and_other_things_are_refused(tmp_path, location, message):
    folder = tmp_path / "model"
    path = saved(folder, external(location=location))
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "out.bin").symlink_to(tmp_path / "w.bin")
    (folder / "outside").symlink_to(tmp_path)
    (folder / "circle").symlink_to(folder / "circle")
    with pytest.raises(ModelFileError, match=message) as caught:
        load_graph(path)
    assert "'w'" in str(caught.value) or location in str(caught.value)


def test_hub_caches_with_links_into_their_blobs_load(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "REVISION" / "onnx"
    path = saved(blobs, external(location="model.bin"), location="data")
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to(path)
    (snapshot / "model.bin").symlink_to("../../../blobs/data")
    assert loaded(snapshot / "model.onnx").tolist() == DATA.tolist()


@pytest.mark.parametrize(
    ("entries", "message"),
    [({"offset": -4}, "offset '-4'"), ({"length": -24}, "length '-24'"), ({"offset": "1e3"}, "whole number"),
     ({"length": 20}, "takes 24 bytes, but is said to take 20"), ({"length": 0}, "said to take 0"),
     ({"offset": 4}, "bytes 4 to 28 of .*w.bin, which has 24"), ({"offset": 2**63}, "which has 24"),
     ({"offset": "9" * 30}, "whole number"), ({"offset": ""}, "whole number"), ({"location": ""}, "not said in which")],
)  # fmt: skip
def test_ranges_that_are_negative_too_long_or_no_numbers(tmp_path, entries, message):
    with pytest.raises(ModelFileError, match=message) as caught:
        load_graph(saved(tmp_path, external(**entries)))
    assert "'w'" in str(caught.value)


@pytest.mark.parametrize("dims", [(-1,), (2**40,), (2**40, 2**40), (7,)])
def test_dimensions_that_the_file_does_not_have(tmp_path, dims):
    with pytest.raises(ModelFileError):
        load_graph(saved(tmp_path, external(dims=dims)))


def test_nothing_is_needed_of_a_file_for_an_empty_tensor(tmp_path):
    assert loaded(saved(tmp_path, external(dims=(0, 3)), content=None)).shape == (0, 3)


def test_narrow_and_unaligned_data(tmp_path):
    content = b"\0" + DATA.tobytes() + b"\x1f\x0a" + b"\0\2\0"
    path = saved(
        tmp_path,
        external("unaligned", offset=1),
        external("int4", dtype=22, dims=(3,), offset=25),
        external("flags", dtype=9, dims=(3,), offset=27),
        external("half", dtype=16, dims=(1,), offset=26),
        content=content,
    )
    made = {n: tensor_array(v.const_value) for n, v in load_graph(path).model.graph.initializers.items()}
    assert made["unaligned"].tolist() == DATA.tolist() and made["unaligned"].flags.aligned
    assert made["int4"].dtype == ml_dtypes.int4 and made["int4"].astype(int).tolist() == [-1, 1, -6]
    assert made["flags"].tolist() == [False, True, False] and made["flags"].view(np.uint8).tolist() == [
        0,
        1,
        0,
    ]
    assert made["half"].dtype == ml_dtypes.bfloat16


def test_strings_cannot_be_external(tmp_path):
    with pytest.raises(InvalidGraphError, match="cannot hold strings"):
        load_graph(saved(tmp_path, external(dtype=8)))


def test_tensors_of_attributes_and_inner_graphs_are_mapped_too(tmp_path):
    constant = onnx.NodeProto(op_type="Constant", output=["c"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(external(""))
    inner = graph([], "", "v", [external("v")])
    condition = [node("ReduceMax", "x", "m", keepdims=0), node("Cast", "m", "b", to=9)]
    made = model(
        [constant, *condition, node("If", "b", "y", then_branch=inner, else_branch=inner)], outputs="y c"
    )
    (tmp_path / "w.bin").write_bytes(DATA.tobytes())
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    found = load_graph(tmp_path / "m.onnx").model
    arrays = [
        v.const_value.numpy()
        for g in (found.graph, *found.graph.subgraphs())
        for v in g.initializers.values()
    ]
    assert len(arrays) == 3 and all(
        np.shares_memory(a, arrays[0]) and a.tolist() == DATA.tolist() for a in arrays
    )


def test_models_without_a_place_say_what_to_do(tmp_path):
    content = saved(tmp_path, external()).read_bytes()
    with pytest.raises(ModelFileError, match="load it from its path"):
        load_graph(content)


def test_external_tensors_of_models_in_memory_keep_their_folder(tmp_path):
    path = saved(tmp_path / "snapshots" / "R", external())
    in_memory = ir.load(path)
    assert loaded(in_memory).tolist() == DATA.tolist()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of resident memory")
def test_more_than_four_gigabytes_load_without_being_read(tmp_path):
    size = 5 * 2**30
    path = saved(
        tmp_path, external(dtype=2, dims=(size,)), external("end", dims=(6,), offset=size), content=None
    )
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(DATA.tobytes())
    before = resident_bytes()
    made = load_graph(path).model.graph.initializers
    assert made["end"].const_value.numpy().tolist() == DATA.tolist()
    assert made["w"].const_value.numpy().nbytes == size
    assert resident_bytes() - before < 2**26


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
