import itertools

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from graph_passes import apply, check, parse
from onnxgen.graph.optimizer.passes.casts import CASTS, is_exact

T = ir.DataType
NUMBERS = (
    T.BOOL, T.UINT8, T.INT8, T.UINT16, T.INT16, T.INT32, T.UINT32, T.INT64, T.UINT64,
    T.FLOAT16, T.BFLOAT16, T.FLOAT, T.DOUBLE,
)  # fmt: skip


def extremes(dtype: T) -> np.ndarray:
    array = dtype.numpy()
    if dtype is T.BOOL:
        return np.array([False, True])
    if not dtype.is_floating_point():
        info = np.iinfo(array)
        return np.array([info.min, info.min + 1, 0, 1, info.max - 1, info.max], array)
    info = ml_dtypes.finfo(array)
    values = [info.smallest_subnormal, info.tiny, info.max, 1 + float(info.eps), -0.0, np.inf, np.nan]
    return np.array([float(v) for v in values], array)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(NUMBERS, NUMBERS)))
def test_exact_means_that_every_extreme_value_survives(source, target):
    values = extremes(source)
    with np.errstate(all="ignore"):
        back = values.astype(target.numpy()).astype(source.numpy())
        over = values.astype(target.numpy())
    survives = np.array_equal(values.view(f"V{values.itemsize}"), back.view(f"V{values.itemsize}"))
    if source is not target and target is T.BOOL:
        survives = False
    if survives and source.is_integer() and source is not T.BOOL:
        survives = all(int(v) == int(o) for v, o in zip(values, over, strict=True))
    if is_exact(source, target):
        assert survives
    elif survives and not source.is_floating_point():
        # integers whose extremes survive by luck: powers of two and their neighbours only
        assert target.is_floating_point()


def test_the_first_of_two_casts_goes_where_it_is_exact():
    check(
        "g (float16[N] x) => (double[N] y) { a = Cast<to = 1>(x) y = Cast<to = 11>(a) }",
        [CASTS],
        ["y = Cast(x) {to=11}"],
    )


def test_there_and_back_goes_where_every_value_survives():
    check(
        "g (float16[N] x) => (float16[N] y) { a = Cast<to = 1>(x) b = Cast<to = 10>(a) y = Neg(b) }",
        CASTS,
        ["y = Neg(x)"],
    )


@pytest.mark.parametrize(
    ("source", "middle", "target"),
    [
        ("float", 10, 1),  # rounds to float16
        ("float", 6, 1),  # cuts to int32
        ("int64", 6, 7),  # wraps
        ("int64", 1, 7),  # rounds to 24 bits
        ("float", 9, 1),  # zero or one
        ("int8", 1, 2),  # a negative float has no uint8
        ("float", 11, 8),  # a double's text has more digits
    ],
)
def test_casts_that_change_values_stay(source, middle, target):
    model = parse(f"g ({source}[N] x) => (y) {{ a = Cast<to = {middle}>(x) y = Cast<to = {target}>(a) }}")
    assert apply(model, CASTS) == ""


def test_casts_over_other_operators_stay():
    check(
        "g (float16[N] x) => (float16[N] y) { a = Cast<to = 1>(x) b = Neg(a) y = Cast<to = 10>(b) }",
        CASTS,
        None,
    )
