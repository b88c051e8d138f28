import sys

import numpy as np
import onnx
import pytest
from onnx import external_data_helper

from onnxgen.backends import load_backend
from onnxgen.backends.base import DecoderModel, SequenceInput, pack_step
from onnxgen.backends.ort.model_file import parse_model
from onnxgen.errors import BackendError, ModelFileError
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder, write_graph

DECODER = TinyDecoder(Sizes(), 7)


def save(folder, *, location="gewichte ö.data", relocate=None):
    """A model with external data; ``relocate`` then changes what the file says about it."""
    folder.mkdir(parents=True, exist_ok=True)
    model = write_graph(DECODER, Style())
    onnx.save(
        model, folder / "model.onnx", save_as_external_data=True, location=location, size_threshold=64
    )  # fmt: skip
    if relocate is not None:
        model = onnx.load(folder / "model.onnx", load_external_data=False)
        for tensor in model.graph.initializer:
            if external_data_helper.uses_external_data(tensor):
                for entry in tensor.external_data:
                    entry.value = relocate.get(entry.key, entry.value)
        onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def load(path, tmp_path, **fields):
    model = DecoderModel(path, {}, {}, num_layers=2, vocab_size=61, context_length=40, **fields)
    return load_backend(model, RuntimeConfig(backend="ort", threads=1, cache_dir=tmp_path / "cache"))


def check_answer(backend):
    tokens = [3, 1, 4, 1, 5]
    cache = backend.create_cache(num_seqs=1, num_tokens=8)
    logits = backend.execute(pack_step([SequenceInput(tokens, 0, [0], logits="all")]), cache).logits
    assert np.abs(logits - DECODER.logits(tokens)).max() < 1e-4


def test_external_data_lies_beside_a_model_with_any_name(tmp_path):
    check_answer(load(save(tmp_path / "größe 模型 1"), tmp_path))


def test_a_model_in_memory_finds_its_data_by_its_path(tmp_path):
    path = save(tmp_path / "m")
    content = path.read_bytes()
    path.unlink()
    check_answer(load(path, tmp_path, model_bytes=content))


def test_links_of_a_hub_cache_are_followed(tmp_path):
    snapshot, blobs = tmp_path / "models--x/snapshots/abc", tmp_path / "models--x/blobs"
    path = save(snapshot)
    blobs.mkdir()
    for name in ("model.onnx", "gewichte ö.data"):
        (snapshot / name).rename(blobs / f"hash of {name}")
        (snapshot / name).symlink_to(f"../../blobs/hash of {name}")
    check_answer(load(path, tmp_path))
    check_answer(load(path, tmp_path))  # from the cache of rewritten graphs


def test_links_that_leave_the_folder_are_refused(tmp_path):
    path = save(tmp_path / "m")
    data = tmp_path / "m/gewichte ö.data"
    data.rename(tmp_path / "elsewhere")
    data.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelFileError, match="outside the model folder"):
        load(path, tmp_path)


@pytest.mark.parametrize(
    ("relocate", "message"),
    [
        ({"location": "../secret"}, "leaves the model folder"),
        ({"location": "/etc/passwd"}, "is absolute"),
        ({"location": "absent"}, "absent does not exist"),
        ({"offset": str(1 << 40)}, r"has \d+ bytes, but tensor .* needs it to have \d+"),
        ({"location": ""}, r"model\.onnx: external data of tensor '.+': file name '' is not usable"),
        ({"location": "x" * 5000}, "cannot be opened|does not exist"),
        ({"length": "4"}, r"of \d+ bytes is said to take 4 bytes"),
        ({"length": "-4"}, r"tensor '.+' has length '-4' .* must be a whole number"),
        ({"offset": "-64"}, r"tensor '.+' has offset '-64' .* must be a whole number"),
        ({"offset": "0x40"}, r"has offset '0x40'"),
        ({"offset": ""}, r"has offset ''"),
    ],
)
def test_external_data_that_is_not_what_the_model_says_is_refused(tmp_path, relocate, message):
    (tmp_path / "secret").write_bytes(b"x" * 100_000)
    with pytest.raises(ModelFileError, match=message):
        load(save(tmp_path / "m", relocate=relocate), tmp_path)


def test_data_that_is_cut_short_later_is_noticed_although_the_graph_is_cached(tmp_path):
    path = save(tmp_path / "m")
    load(path, tmp_path).close()
    data = tmp_path / "m/gewichte ö.data"
    size = data.stat().st_size
    with data.open("r+b") as file:
        file.truncate(size - 1)
    with pytest.raises(
        ModelFileError, match=f"has {size - 1} bytes.*needs it to have {size}; .*fetch it again"
    ):
        load(path, tmp_path)
    data.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"empty \(0 bytes\)"):
        load(path, tmp_path)


def test_files_that_are_no_models_are_refused(tmp_path):
    path = save(tmp_path / "m")
    whole = path.read_bytes()
    for content, message in (
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS pointer"),
        (whole[: len(whole) // 2], "cut short"),
        (b"\0" * 100, "not an ONNX file|cannot be read|no outputs"),
    ):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=message):
            load(path, tmp_path)
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path / "m", tmp_path)


def test_a_graph_without_outputs_is_no_decoder(tmp_path):
    with pytest.raises(ModelFileError, match="no outputs"):
        parse_model(onnx.ModelProto().SerializeToString() or b"\x08\x0a", tmp_path / "m.onnx")


def test_what_onnx_runtime_refuses_names_the_model(tmp_path):
    model = write_graph(DECODER, Style())
    next(n for n in model.graph.node if n.op_type == "Sigmoid").op_type = "NoSuchOperator"
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(BackendError, match=r"loading .*model\.onnx failed in ONNX Runtime: .*NoSuchOperator"):
        load(tmp_path / "model.onnx", tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("data_type", onnx.TensorProto.STRING, r"of type STRING and shape .* cannot be in"),
        ("data_type", 77, "is not a graph that can be read"),
        ("dims", [-5, 3], r"shape \[-5,3\] cannot be in"),
    ],
)
def test_tensors_that_no_file_can_hold_are_refused(tmp_path, field, value, message):
    path = save(tmp_path / "m")
    model = onnx.load(path, load_external_data=False)
    tensor = next(t for t in model.graph.initializer if external_data_helper.uses_external_data(t))
    if field == "dims":
        tensor.dims[:] = value
    else:
        setattr(tensor, field, value)
    onnx.save(model, path)
    with pytest.raises(ModelFileError, match=message):
        load(path, tmp_path)


def test_nodes_may_stand_in_any_order_but_in_no_circle(tmp_path):
    path = save(tmp_path / "m")
    model = onnx.load(path, load_external_data=False)
    nodes = [onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    onnx.save(model, path)
    check_answer(load(path, tmp_path))
    model.graph.node[-1].input[0] = model.graph.output[0].name
    onnx.save(model, path)
    with pytest.raises(ModelFileError, match=r"model\.onnx is not a graph that can be read: .*cycle"):
        load(path, tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_model_folders_may_lie_deep_inside_a_hub_cache(tmp_path):
    snapshot, blobs = tmp_path / "models--x/snapshots/abc/cpu/int4", tmp_path / "models--x/blobs"
    path = save(snapshot)
    blobs.mkdir()
    for index, name in enumerate(("model.onnx", "gewichte ö.data")):
        (snapshot / name).rename(blobs / f"hash{index}")
        (snapshot / name).symlink_to(f"../../../../blobs/hash{index}")
    check_answer(load(path, tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_data_that_becomes_a_loop_of_links_is_noticed_although_the_graph_is_cached(tmp_path):
    path = save(tmp_path / "m")
    load(path, tmp_path).close()
    data = tmp_path / "m/gewichte ö.data"
    data.unlink()
    data.symlink_to(data.name)
    with pytest.raises(ModelFileError, match=r"cannot be followed|cannot be opened"):
        load(path, tmp_path)
