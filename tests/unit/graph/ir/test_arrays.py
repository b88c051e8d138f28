import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from foreign_array import ForeignArray
from onnxgen.errors import CapabilityError, FeedError
from onnxgen.graph.ir.arrays import array_of, check_onnx_type, default_dtype, host_array, is_plain

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (1, True),
        (1.5, True),
        ("a", True),
        ([1], True),
        ((), True),
        (np.float32(1), False),
        (np.str_("a"), False),
        (X, False),
    ],
)
def test_plain_values_have_no_type_of_their_own(value, plain):
    assert is_plain(value) is plain


def test_memory_is_shared_where_it_can_be():
    assert host_array(X, "x") is X
    assert np.shares_memory(host_array(ForeignArray(X), "x"), X)
    assert np.shares_memory(host_array(X[:, ::2], "x"), X)


def test_byte_orders_and_subclasses_become_plain_arrays():
    array = host_array(X.astype(">f4"), "x")
    assert array.dtype.isnative
    np.testing.assert_array_equal(array, X)
    masked = np.ma.masked_array(X)
    assert type(host_array(masked, "x")) is np.ndarray
    assert host_array(np.float32(1), "x").shape == ()


def test_objects_that_are_texts_already_are_not_copied():
    texts = np.array([["a", "ä"]], object)
    assert host_array(texts, "x") is texts
    strange = np.array(["a", np.str_("ä")], object)
    assert host_array(strange, "x") is not strange


def test_texts_of_every_kind_become_objects():
    for value in (np.array("ä"), np.array("ä".encode()), np.str_("ä"), np.array("ä", object)):
        array = host_array(value, "x")
        assert array.dtype == object
        assert array.shape == ()
        assert array.tolist() == "ä"


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (object(), FeedError, "x: expected an array, found object"),
        (np.array([1, None], object), FeedError, "found a int among the objects"),
        (np.array(b"\xff"), FeedError, "not UTF-8"),
        (ForeignArray(X, device=(2, 1)), CapabilityError, "CUDA"),
    ],
    ids=range(4),
)
def test_what_is_no_tensor_is_named(value, error, message):
    with pytest.raises(error, match=message):
        host_array(value, "x")


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ([1, 2], ir.DataType.FLOAT, np.array([1, 2], np.float32)),
        ([1, 2], ir.DataType.BFLOAT16, np.array([1, 2], ml_dtypes.bfloat16)),
        ([1, -8], ir.DataType.INT4, np.array([1, -8], ml_dtypes.int4)),
        ([0, 1], ir.DataType.BOOL, np.array([False, True])),
        (True, ir.DataType.INT64, np.array(1, np.int64)),
        ([], ir.DataType.INT8, np.array([], np.int8)),
        ([[]], ir.DataType.STRING, np.empty((1, 0), object)),
        (1j, ir.DataType.COMPLEX64, np.array(1j, np.complex64)),
    ],
)
def test_lists_become_what_is_asked(value, dtype, expected):
    array = array_of(value, dtype, "x")
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert array.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1.5], ir.DataType.INT64),
        ([1.5], ir.DataType.INT4),
        ([300], ir.DataType.UINT8),
        ([-1], ir.DataType.UINT8),
        ([0, 2], ir.DataType.BOOL),
        ([1j], ir.DataType.FLOAT),
        ([1e39], ir.DataType.FLOAT),
        ([1e5], ir.DataType.FLOAT16),
        (["a"], ir.DataType.FLOAT),
        ([1], ir.DataType.STRING),
        ([[1], [2, 3]], ir.DataType.FLOAT),
        ([None], ir.DataType.FLOAT),
    ],
)
def test_lists_that_would_lose_something_are_refused(value, dtype):
    with pytest.raises(FeedError, match="x: "):
        array_of(value, dtype, "x")


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "INT64"),
        ([1.5], "FLOAT"),
        (True, "BOOL"),
        ([["a"]], "STRING"),
        (b"a", "STRING"),
        ([], "FLOAT"),
        (2**63, "UINT64"),
    ],
)
def test_types_of_plain_values(value, dtype):
    assert default_dtype(value) is ir.DataType[dtype]


def test_plain_values_without_a_type():
    for value in ([None], [[1], [2, 3]], 2**70):
        with pytest.raises(FeedError):
            default_dtype(value)


def test_times_are_no_element_type():
    assert check_onnx_type(X, "x") is ir.DataType.FLOAT
    with pytest.raises(FeedError, match=r"x: .*datetime64"):
        check_onnx_type(X.astype("datetime64[s]"), "x")
