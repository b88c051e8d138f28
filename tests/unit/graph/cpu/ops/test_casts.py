"""Cast, CastLike, BitCast."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort, run_reference
from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.ir.types import numpy_dtype

D = ir.DataType
NO_CAST = {D.UNDEFINED, D.COMPLEX64, D.COMPLEX128}
TYPES = [dtype for dtype in D if dtype not in NO_CAST]
OF_NUMPY = [
    D.FLOAT,
    D.DOUBLE,
    D.BOOL,
    D.INT8,
    D.UINT8,
    D.INT16,
    D.UINT16,
    D.INT32,
    D.UINT32,
    D.INT64,
    D.UINT64,
]


def small_values(dtype: ir.DataType) -> np.ndarray:
    """0 and 1 as that type has them: what every type can hold."""
    if dtype is D.STRING:
        return np.array([["1", "1"], ["1", "1"]], object)
    return np.array([[1, 1], [1, 1]]).astype(numpy_dtype(dtype))


@pytest.mark.parametrize("source", TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("target", TYPES, ids=lambda dtype: dtype.name)
def test_every_type_casts_to_every_other(source, target):
    got = run_cpu("Cast", small_values(source), to=int(target))
    assert got.dtype == numpy_dtype(target) and got.shape == (2, 2)
    one = {"1", "1.0", "True"} if target is D.STRING else {1}
    assert set(got.reshape(-1).tolist()) <= one if target is D.STRING else bool((got == 1).all())


@pytest.mark.parametrize("source", OF_NUMPY, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("target", OF_NUMPY, ids=lambda dtype: dtype.name)
def test_casts_between_wide_types_give_what_onnx_runtime_gives(source, target):
    rng = fresh_rng()
    high = 2 if source is D.BOOL else 100
    low = 0 if D.UINT8 in (source, target) or "UINT" in source.name + target.name else -100
    x = rng.integers(min(low, high - 1), high, (3, 5)).astype(numpy_dtype(source))
    options = {"to": int(target), "opset": 13}
    assert_same(run_cpu("Cast", x, **options), run_ort("Cast", x, **options))


def test_integers_drop_their_high_bits():
    x = np.array([200, -129, 300], np.int16)
    assert run_cpu("Cast", x, to=int(D.INT8)).tolist() == [-56, 127, 44]
    assert run_cpu("Cast", x, to=int(D.UINT4)).tolist() == [8, 15, 12]
    assert run_cpu("Cast", x, to=int(D.INT4)).tolist() == [-8, -1, -4]
    assert run_cpu("Cast", x, to=int(D.UINT2)).tolist() == [0, 3, 0]


def test_only_zeros_are_false():
    x = np.array([0.0, -0.0, 0.2, np.nan, -np.inf], np.float32)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16, np.float64):
        assert run_cpu("Cast", x.astype(dtype), to=int(D.BOOL)).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("target", [D.FLOAT8E4M3FN, D.FLOAT8E4M3FNUZ, D.FLOAT8E5M2, D.FLOAT8E5M2FNUZ])
@pytest.mark.parametrize("source", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
def test_float8_saturates_unless_told_not_to(target, source):
    dtype = numpy_dtype(target)
    top = float(ml_dtypes.finfo(dtype).max)
    far = 65000.0 if source is np.float16 else 1e9
    x = np.array([np.inf, -np.inf, np.nan, far, -far, 0.4, top], np.float64).astype(source)
    saturated = run_cpu("Cast", x, to=int(target)).astype(np.float64)
    assert saturated[[0, 1, 3, 4, 6]].tolist() == [top, -top, top, -top, top] and np.isnan(saturated[2])
    plain = run_cpu("Cast", x, to=int(target), saturate=0).astype(np.float64)
    beyond = np.inf if target is D.FLOAT8E5M2 else np.nan
    assert_same(plain[:5], np.array([beyond, -beyond, np.nan, beyond, -beyond]))
    assert_same(plain[5:], saturated[5:])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("up", [2, 2, 4, 1, 4]), ("down", [1, 1, 2, 1, 2]), ("nearest", [1, 2, 4, 1, 2])],
)
def test_float8e8m0_rounds_to_powers_of_two(mode, expected):
    x = np.array([1.1, 1.5, 3.0, 1.0, 2.5], np.float32)
    got = run_cpu("Cast", x, to=int(D.FLOAT8E8M0), round_mode=mode)
    assert got.astype(np.float32).tolist() == expected
    reference = run_reference(
        "Cast", x, to=int(D.FLOAT8E8M0), round_mode=mode, output_types=[D.FLOAT8E8M0], opset=25
    )
    assert_same(got, reference)


def test_float8e8m0_at_its_ends():
    x = np.array([0, 1e-45, np.inf, np.nan, 3e38, 2.0**-127], np.float32)
    saturated = run_cpu("Cast", x, to=int(D.FLOAT8E8M0)).view(np.uint8)
    assert saturated.tolist() == [0, 0, 254, 255, 254, 0]
    plain = run_cpu("Cast", x, to=int(D.FLOAT8E8M0), saturate=0, round_mode="nearest").view(np.uint8)
    assert plain.tolist() == [255, 255, 255, 255, 255, 0]
    with pytest.raises(KernelError, match="sideways"):
        run_cpu("Cast", x, to=int(D.FLOAT8E8M0), round_mode="sideways")


def test_numbers_become_plain_text():
    x = np.array([0.47892547, 100, -0.5, np.nan, np.inf], np.float32)
    assert run_cpu("Cast", x, to=int(D.STRING)).tolist() == ["0.47892547", "100.0", "-0.5", "nan", "inf"]
    assert run_cpu("Cast", np.array([7, -3]), to=int(D.STRING)).tolist() == ["7", "-3"]
    assert run_cpu("Cast", np.array([0.5], ml_dtypes.bfloat16), to=int(D.STRING)).tolist() == ["0.5"]
    assert run_cpu("Cast", np.array([-3], ml_dtypes.int4), to=int(D.STRING)).tolist() == ["-3"]


def test_text_becomes_numbers():
    x = np.array(["3.5", "1e-3", "+INF", "-inf", "NaN", " 7 "], object)
    assert_same(
        run_cpu("Cast", x, to=int(D.FLOAT)), np.array([3.5, 1e-3, np.inf, -np.inf, np.nan, 7], np.float32)
    )
    whole = np.array(["9007199254740993", "-12", "100.5"], object)
    assert run_cpu("Cast", whole, to=int(D.INT64)).tolist() == [9007199254740993, -12, 100]
    assert run_cpu("Cast", np.array(["18446744073709551615"], object), to=int(D.UINT64))[0] == 2**64 - 1
    assert run_cpu("Cast", np.array(["0", "2"], object), to=int(D.BOOL)).tolist() == [False, True]


def test_text_that_is_no_number_is_told():
    for target in (D.FLOAT, D.INT32):
        with pytest.raises(KernelError, match="Hello"):
            run_cpu("Cast", np.array(["Hello"], object), to=int(target))


def test_the_first_version_names_its_type():
    assert run_cpu("Cast", np.array([1.7], np.float32), opset=1, to="INT32").tolist() == [1]


def test_a_cast_to_the_same_type_is_the_tensor_itself():
    x = np.ones(3, np.float32)
    kernel = kernel_of(node_spec("Cast", x, to=int(D.FLOAT)))
    assert kernel.run(x) is x and kernel.may_alias == ((0, 0),)


def test_cast_like_takes_the_type_of_the_other():
    x = np.array([1.5, 1e9], np.float32)
    assert run_cpu("CastLike", x, np.zeros(1, np.int8)[:0])[:1].tolist() == [1]
    assert run_cpu("CastLike", x, np.array("a", object)).tolist() == ["1.5", "1e+09"]
    like = np.zeros(0, ml_dtypes.float8_e4m3fn)
    assert run_cpu("CastLike", x, like).astype(np.float32).tolist() == [1.5, 448]


def test_bits_are_read_as_another_type():
    assert run_cpu("BitCast", np.array([1.0], np.float32), to=int(D.INT32)).tolist() == [0x3F800000]
    assert run_cpu("BitCast", np.array([-1], ml_dtypes.int4), to=int(D.UINT4)).tolist() == [15]
    assert run_cpu("BitCast", np.zeros((2, 3), np.uint16).T, to=int(D.FLOAT16)).shape == (3, 2)


def test_bits_of_another_width_are_refused():
    with pytest.raises(InvalidGraphError, match="FLOAT has 32 bits, INT64 has 64"):
        run_cpu("BitCast", np.zeros(2, np.float32), to=int(D.INT64))
    with pytest.raises(InvalidGraphError, match="8 bits, INT4 has 4"):
        run_cpu("BitCast", np.zeros(2, np.int8), to=int(D.INT4))
    with pytest.raises(InvalidGraphError, match="strings"):
        run_cpu("BitCast", np.array(["a"], object), to=int(D.INT8))
