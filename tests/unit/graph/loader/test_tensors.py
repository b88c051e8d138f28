import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_models import model
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.ir.types import numpy_dtype
from onnxgen.graph.loader import load_graph

T = onnx.TensorProto
DTYPES = [dtype for dtype in ir.DataType if dtype not in (ir.DataType.UNDEFINED, ir.DataType.STRING)]


def loaded(tensor):
    tensor.name = "w"
    made = load_graph(model([], inputs="", outputs="", initializers=[tensor]).SerializeToString())
    return tensor_array(made.model.graph.initializers["w"].const_value)


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=15, deadline=None)
@given(shape=st.lists(st.integers(0, 5), max_size=3), seed=st.integers(0, 2**32 - 1))
def test_raw_data_of_every_type_and_odd_sizes(dtype, shape, seed):
    bits = np.random.default_rng(seed).integers(0, 2, (*shape, 1)) if dtype is ir.DataType.BOOL else None
    values = np.random.default_rng(seed).integers(0, 4, shape) if bits is None else bits[..., 0]
    array = values.astype(numpy_dtype(dtype))
    stored = ir.to_proto(ir.Tensor(array, dtype, name="w"))
    got = loaded(stored)
    assert got.dtype == array.dtype and got.shape == array.shape
    assert np.array_equal(got.astype(np.complex64), array.astype(np.complex64), equal_nan=True)


@pytest.mark.parametrize(
    ("kind", "field", "stored", "expected"),
    [
        (T.FLOAT, "float_data", [1.5, 2], np.array([1.5, 2], np.float32)),
        (T.COMPLEX64, "float_data", [1, 2, 3, 4], np.array([1 + 2j, 3 + 4j], np.complex64)),
        (T.DOUBLE, "double_data", [1.5, 2], np.array([1.5, 2])),
        (T.COMPLEX128, "double_data", [1, 2, 3, 4], np.array([1 + 2j, 3 + 4j])),
        (T.INT64, "int64_data", [-1, 2**62], np.array([-1, 2**62])),
        (T.UINT64, "uint64_data", [1, 2**63], np.array([1, 2**63], np.uint64)),
        (T.UINT32, "uint64_data", [1, 2**31], np.array([1, 2**31], np.uint32)),
        (T.INT32, "int32_data", [-1, 5], np.array([-1, 5], np.int32)),
        (T.INT8, "int32_data", [-1, 300], np.array([-1, 44], np.int8)),
        (T.UINT16, "int32_data", [1, 65535], np.array([1, 65535], np.uint16)),
        (T.BOOL, "int32_data", [2, 0], np.array([True, False])),
        (T.FLOAT16, "int32_data", [15360, 49152], np.array([1, -2], np.float16)),
        (T.BFLOAT16, "int32_data", [16256, 49152], np.array([1, -2], ml_dtypes.bfloat16)),
        (T.FLOAT8E4M3FN, "int32_data", [56, 192], np.array([1, -2], ml_dtypes.float8_e4m3fn)),
        (T.INT4, "int32_data", [0xF1], np.array([1, -1], ml_dtypes.int4)),
        (T.UINT2, "int32_data", [0b0110], np.array([2, 1], ml_dtypes.uint2)),
    ],
)
def test_typed_fields(kind, field, stored, expected):
    got = loaded(T(data_type=kind, dims=[2], **{field: stored}))
    assert got.dtype == expected.dtype and np.array_equal(got, expected)


def test_strings_keep_bytes_that_are_not_text():
    got = loaded(T(data_type=T.STRING, dims=[2], string_data=["ä".encode(), b"\xff"]))
    assert got.dtype == object and got.tolist() == ["ä", b"\xff".decode("utf-8", "surrogateescape")]


@pytest.mark.parametrize(
    ("tensor", "finding"),
    [
        (T(data_type=1, dims=[2], raw_data=b"1234"), "FLOAT[2] has 4 bytes of raw_data, expected 8"),
        (T(data_type=1, dims=[2], raw_data=b"123456789012"), "has 12 bytes of raw_data, expected 8"),
        (T(data_type=1, dims=[2], float_data=[1, 2, 3]), "has 3 values in float_data, expected 2"),
        (T(data_type=1, dims=[2**40]), "has dimensions [1099511627776] but no data"),
        (T(data_type=1, dims=[2**40, 2**40]), "more than any memory holds"),
        (T(data_type=1, dims=[2] * 100), "(100 of them), more than any memory holds"),
        (T(data_type=1, dims=[-1], float_data=[1]), "cannot be negative"),
        (
            T(data_type=1, dims=[1], float_data=[1], raw_data=b"1234"),
            "data twice, in float_data and raw_data",
        ),
        (
            T(data_type=1, dims=[1], double_data=[1]),
            "has its data in double_data, which does not hold that type",
        ),
        (T(data_type=8, dims=[1], raw_data=b"a"), "STRING has its data in raw_data"),
        (T(data_type=8, dims=[3], string_data=[b"a"]), "has 1 strings, expected 3"),
        (T(data_type=22, dims=[3], raw_data=b"a"), "INT4[3] has 1 bytes of raw_data, expected 2"),
        (T(data_type=22, dims=[3], int32_data=[1, 2, 3]), "has 3 values in int32_data, expected 2"),
        (T(data_type=0, dims=[0]), "has no element type"),
        (T(data_type=99, dims=[0]), "has element type 99, which does not exist"),
        (T(data_type=1, dims=[0], segment=T.Segment(begin=0, end=1)), "is cut into segments"),
    ],
)
def test_tensors_whose_data_do_not_fit_are_told_by_name(tensor, finding):
    with pytest.raises(InvalidGraphError) as caught:
        loaded(tensor)
    assert "tensor 'w' " in str(caught.value) and finding in str(caught.value)


def test_no_data_are_needed_for_no_elements():
    assert loaded(T(data_type=1, dims=[0, 2**40])).shape == (0, 2**40)


def test_arrays_do_not_hold_on_to_the_file():
    content = model([], inputs="", outputs="", initializers=[onnx.numpy_helper.from_array(np.ones(3), "w")])
    value = load_graph(content.SerializeToString()).model.graph.initializers["w"].const_value
    assert type(value) is ir.Tensor
