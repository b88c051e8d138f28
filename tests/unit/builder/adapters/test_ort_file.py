import secrets

import ml_dtypes
import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.builder.adapters import read_adapter
from onnxgen.errors import CheckpointError

SEED = secrets.randbits(32)


def export(path, parameters):
    file = ort.AdapterFormat()
    file.set_adapter_version(7)
    file.set_model_version(3)
    file.set_parameters(
        {
            name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, onnx_type)
            for name, (array, onnx_type) in parameters.items()
        }
    )
    file.export_adapter(str(path))
    return path


def some_parameters():
    rng = np.random.default_rng(SEED)
    return {
        "model.layers.0.attn.q_proj.lora_A.weight": (rng.standard_normal((5, 3)).astype(np.float32), 1),
        "half": (rng.standard_normal((2, 1, 7)).astype(np.float16), 10),
        "brain é": (rng.standard_normal(11).astype(ml_dtypes.bfloat16), 16),
        "scalar": (np.float32([2.5]).reshape(()), 1),
    }


def test_what_onnxruntime_writes_is_read(tmp_path):
    parameters = some_parameters()
    adapter = read_adapter(export(tmp_path / "a.onnx_adapter", parameters), "x")
    assert set(adapter.inputs) == set(parameters)
    for name, (array, _) in parameters.items():
        assert adapter.inputs[name].dtype == array.dtype
        np.testing.assert_array_equal(adapter.inputs[name], array, err_msg=f"seed {SEED}")
    assert not adapter.pairs


def test_a_folder_with_one_such_file_stands_for_it(tmp_path):
    export(tmp_path / "a.onnx_adapter", some_parameters())
    assert set(read_adapter(tmp_path, "x").inputs) == set(some_parameters())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x0c\0\0\0TORX" + bytes(60), "no adapter file of ONNX Runtime"),
        (b"\xff\xff\xff\xffTORT" + bytes(60), "broken or was cut short"),
        (b"\x08\0\0\0TORT" + bytes(60), "format version|broken|no parameters"),
        (b"short", "no adapter file"),
    ],
)
def test_other_files_are_refused(content, message, tmp_path):
    (tmp_path / "a.onnx_adapter").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_adapter(tmp_path / "a.onnx_adapter", "x")


def test_integers_and_infinities_are_refused(tmp_path):
    export(tmp_path / "a.onnx_adapter", {"ids": (np.arange(3), 7)})
    with pytest.raises(CheckpointError, match="'ids' has element type 7, which is no float"):
        read_adapter(tmp_path / "a.onnx_adapter", "x")
    export(tmp_path / "b.onnx_adapter", {"w": (np.float32([1, np.inf]), 1)})
    with pytest.raises(CheckpointError, match="'w' holds NaN or infinity"):
        read_adapter(tmp_path / "b.onnx_adapter", "x")


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return export(tmp_path_factory.mktemp("adapter") / "a.onnx_adapter", some_parameters()).read_bytes()


@given(data=st.data())
def test_damaged_files_are_refused_or_read_but_never_crash(content, tmp_path_factory, data):
    damaged = bytearray(content[: data.draw(st.integers(8, len(content)))])
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(8, len(damaged) - 1)) if len(damaged) > 8 else None
        if at is not None:
            damaged[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.onnx_adapter"
    path.write_bytes(damaged)
    try:
        adapter = read_adapter(path, "x")
    except CheckpointError:
        return
    assert sum(a.nbytes for a in adapter.inputs.values()) <= 4 * len(content)
