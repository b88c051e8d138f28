"""MatMul, Gemm, Einsum, Det."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

SHAPES = [
    ((3, 5), (5, 7)),
    ((5,), (5,)),
    ((5,), (5, 7)),
    ((3, 5), (5,)),
    ((2, 1, 3, 5), (4, 5, 7)),
    ((0, 5), (5, 2)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint64, np.int64])
def test_matmul_gives_what_onnx_runtime_gives(left, right, dtype):
    rng = fresh_rng()
    a, b = rng.integers(0, 9, left).astype(dtype), rng.integers(0, 9, right).astype(dtype)
    assert_same(run_cpu("MatMul", a, b, opset=13), run_ort("MatMul", a, b, opset=13))


@pytest.mark.parametrize("dtype", [np.float32, np.uint64, np.float16])
def test_sums_of_nothing_are_zeros(dtype):
    assert_same(run_cpu("MatMul", np.ones((3, 0), dtype), np.ones((0, 4), dtype)), np.zeros((3, 4), dtype))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_summed_in_float32(dtype):
    a, b = np.ones((2, 1000), dtype), np.full((1000, 3), 0.5, dtype)
    assert_same(run_cpu("MatMul", a, b), np.full((2, 3), 500, dtype), rtol=0)


def test_transposed_views_are_multiplied():
    rng = fresh_rng()
    a, b = rng.standard_normal((5, 3)).T, rng.standard_normal((7, 5)).T
    assert_same(run_cpu("MatMul", a, b), np.ascontiguousarray(a) @ np.ascontiguousarray(b))


@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("c_shape", [None, (), (7,), (1, 7), (3, 1), (3, 7)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.5, 2.0)])
def test_gemm_gives_what_onnx_runtime_gives(trans_a, trans_b, c_shape, alpha, beta):
    rng = fresh_rng()
    a = rng.standard_normal((5, 3) if trans_a else (3, 5)).astype(np.float32)
    b = rng.standard_normal((7, 5) if trans_b else (5, 7)).astype(np.float32)
    c = [] if c_shape is None else [np.asarray(rng.standard_normal(c_shape), np.float32)]
    options = {"transA": trans_a, "transB": trans_b, "alpha": alpha, "beta": beta, "opset": 13}
    assert_same(run_cpu("Gemm", a, b, *c, **options), run_ort("Gemm", a, b, *c, **options))


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float16, ml_dtypes.bfloat16])
def test_gemm_of_other_types(dtype):
    rng = fresh_rng()
    a, b, c = (rng.integers(0, 5, shape) for shape in ((3, 4), (4, 5), (5,)))
    given = [x.astype(dtype) for x in (a, b, c)]
    assert_same(run_cpu("Gemm", *given), (a @ b + c).astype(dtype))
    assert_same(run_cpu("Gemm", *given, alpha=2.0, beta=3.0), (2 * (a @ b) + 3 * c).astype(dtype))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("b i d, b j d -> b i j", [(2, 3, 4), (2, 5, 4)]),
        ("...ij,...jk", [(2, 1, 3, 4), (1, 6, 4, 5)]),
        ("ij->ji", [(3, 4)]),
        ("ii->i", [(4, 4)]),
        ("ii", [(3, 3)]),
        ("i,j,k->ijk", [(2,), (3,), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_einsum_gives_what_onnx_runtime_gives(equation, shapes, dtype):
    rng = fresh_rng()
    inputs = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    got = run_cpu("Einsum", *inputs, opset=12, equation=equation)
    assert_same(got, run_ort("Einsum", *inputs, opset=12, equation=equation))


def test_determinants():
    rng = fresh_rng()
    x = rng.standard_normal((2, 3, 4, 4)).astype(np.float32)
    assert_same(run_cpu("Det", x, opset=11), run_ort("Det", x, opset=11), rtol=1e-4, atol=1e-4)
    assert run_cpu("Det", np.eye(3, dtype=np.float16) * 2) == 8


@pytest.mark.parametrize("flags", [*itertools.product((0, 1), repeat=4)])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_every_transposition(flags, rank):
    rng = fresh_rng()
    batch = rng.integers(1, 4, rank - 2)

    def operand(rows, columns, swapped, first):
        x = rng.standard_normal((*batch, rows, columns)).astype(np.float32)
        x = x.swapaxes(-1, -2) if swapped else x
        return np.ascontiguousarray(np.moveaxis(x, -2, 0) if first else x)

    a_swapped, b_swapped, a_first, b_first = flags
    if rank == 2 and (a_first or b_first):
        pytest.skip("a matrix has no batch")
    args = operand(5, 6, a_swapped, a_first), operand(6, 4, b_swapped, b_first)
    options = {"transA": a_swapped, "transB": b_swapped, "transBatchA": a_first, "transBatchB": b_first}
    options |= {"alpha": 0.5, "domain": "com.microsoft"}
    assert_same(run_cpu("FusedMatMul", *args, **options), run_ort("FusedMatMul", *args, **options), atol=1e-5)
    if not (a_first or b_first):
        del options["transBatchA"], options["transBatchB"]
        assert_same(
            run_cpu("TransposeMatMul", *args, **options),
            run_ort("TransposeMatMul", *args, **options),
            atol=1e-5,
        )


@pytest.mark.parametrize(
    ("activation", "params"),
    [("Relu", {}), ("Tanh", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})],
)  # fmt: skip
def test_gemm_with_an_activation(activation, params):
    rng = fresh_rng()
    args = [rng.standard_normal(shape).astype(np.float32) for shape in ((5, 6), (4, 6), (4,))]
    options = {
        "activation": activation,
        "alpha": 0.5,
        "beta": 0.7,
        "transB": 1,
        "domain": "com.microsoft",
        **params,
    }
    assert_same(run_cpu("FusedGemm", *args, **options), run_ort("FusedGemm", *args, **options), atol=1e-5)


def test_an_activation_with_its_second_parameter_alone_has_the_default_of_the_first():
    a = np.full((1, 1), 0.5, np.float32)
    options = {"activation": "HardSigmoid", "activation_beta": 0.1, "domain": "com.microsoft"}
    assert_same(
        run_cpu("FusedGemm", a, a, **options), np.full((1, 1), 0.2 * 0.25 + 0.1, np.float32), atol=1e-7
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "shape", [(1, 301), (7, 301), (2, 40, 301), (512, 301), (1030, 301), (301,), (0, 301)]
)
def test_a_constant_matrix_is_packed(dtype, shape):
    rng = fresh_rng()
    a, b = rng.standard_normal(shape).astype(dtype), (rng.standard_normal((301, 450)) / 16).astype(dtype)
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
    precision = {"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 1e-2, "atol": 1e-3}
    assert kernel_of(node_spec("MatMul", a, b, constants=[1])).absorbed == (1,)
    assert_same(run_cpu("MatMul", a, b, constants=[1]), want, **precision)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("trans", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("c_shape", [None, (450,), (1, 450), (7, 1), (7, 450), ()])
@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.5, 2.0)])
def test_gemm_with_a_constant_matrix(dtype, trans, c_shape, factors):
    rng = fresh_rng()
    a, b = rng.standard_normal((7, 301)).astype(dtype), (rng.standard_normal((301, 450)) / 16).astype(dtype)
    c = None if c_shape is None else np.asarray(rng.standard_normal(c_shape), dtype)
    want = factors[0] * (a.astype(np.float64) @ b.astype(np.float64))
    want = want if c is None else want + factors[1] * c.astype(np.float64)
    options = {"transA": trans[0], "transB": trans[1], "alpha": factors[0], "beta": factors[1]}
    given = [*(np.ascontiguousarray(x.T) if t else x for x, t in zip((a, b), trans, strict=True)), c]
    got = run_cpu("Gemm", *given[: 2 if c is None else 3], constants=[1], **options)
    assert_same(got, want.astype(dtype), **({"rtol": 1e-5, "atol": 1e-5} if dtype == np.float32 else {"rtol": 2e-3, "atol": 2e-3}))  # fmt: skip


def test_what_does_not_fit_packed_weights_is_named():
    b = np.zeros((300, 450), np.float32)
    kernel = kernel_of(node_spec("MatMul", np.zeros((2, 300), np.float32), b, constants=[1]))
    with pytest.raises(KernelError, match=r"shape \(2, 299\) does not fit 300 rows"):
        kernel.run(np.zeros((2, 299), np.float32), b)
