"""Weights that are quantized in blocks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import CPU, assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.ep.provider import Decline

MICROSOFT = {"domain": "com.microsoft"}


def _case(rng, bits, block, zeros):
    n, k = int(rng.integers(1, 20)), int(rng.integers(1, 150))
    blocks = -(-k // block)
    b = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.random((n, blocks)).astype(np.float32) * 0.1
    points = {
        "none": None,
        "packed": rng.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8),
        "float": (rng.standard_normal((n, blocks)) + 2 ** (bits - 1)).astype(np.float32),
    }[zeros]
    a = rng.standard_normal((2, 3, k)).astype(np.float32)
    return [a, b, scales, points], {"N": n, "K": k, "bits": bits, "block_size": block, **MICROSOFT}


FORMS = [
    (2, 16, "none"),
    (4, 32, "none"),
    (4, 32, "packed"),
    (8, 64, "float"),
    (4, 128, "packed"),
    (8, 256, "none"),
]
FORMS += [
    (3, 32, "packed"),
    (5, 16, "none"),
    (4, 512, "float"),
    (4, 8, "packed"),
]  # of which kernels know the last not at all
HELD = {"none": (1, 2), "packed": (1, 2, 3), "float": (1, 2, 3)}


def _exact(args, options, bias=None, groups=None):
    """The product in float64, and what its error is measured by: a sum of magnitudes."""
    a, b, scales, zeros = args[:4]
    n, k, bits, block = (options[name] for name in ("N", "K", "bits", "block_size"))
    blocks = -(-k // block)
    q = unpack(b, bits, block).reshape(n, -1)[:, :k].astype(np.float64)
    if zeros is None:
        zeros = np.full((n, blocks), 2 ** (bits - 1))
    elif zeros.dtype == np.uint8:
        zeros = unpack(zeros, bits, blocks)
    groups = np.arange(k) // block if groups is None else groups
    weights = (q - zeros.astype(np.float64)[:, groups]) * scales.astype(np.float64)[:, groups]
    a = a.astype(np.float64)
    return a @ weights.T + (0 if bias is None else bias), np.abs(a) @ np.abs(weights).T


@pytest.mark.parametrize(
    ("bits", "block", "zeros", "level"), [(*form, 4 * (index % 2)) for index, form in enumerate(FORMS)]
)
def test_constant_weights_are_packed(bits, block, zeros, level):
    rng = fresh_rng()
    args, options = _case(rng, bits, block, zeros)
    bias = rng.standard_normal(options["N"]).astype(np.float32)
    want, size = _exact(args, options, bias)
    got = run_cpu("MatMulNBits", *args, None, bias, constants=HELD[zeros], accuracy_level=level, **options)
    assert (np.abs(got - want) <= (2e-2 if level == 4 else 1e-4) * size).all()


@pytest.mark.parametrize(("bits", "block", "zeros"), FORMS)
def test_other_weights_are_multiplied_in_float32(bits, block, zeros):
    rng = fresh_rng()
    args, options = _case(rng, bits, block, zeros)
    bias = rng.standard_normal(options["N"]).astype(np.float32)
    want, _ = _exact(args, options, bias)
    got = run_cpu("MatMulNBits", *args, None, bias, **options)
    assert_same(got, want.astype(np.float32), rtol=1e-4, atol=1e-3)
    if bits in (2, 4, 8) and block >= 16 and (bits, zeros) != (8, "float"):  # what ONNX Runtime takes on CPUs
        assert_same(got, run_ort("MatMulNBits", *args, None, bias, **options), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("level", [0, 4])
def test_a_row_is_the_same_among_others(level):
    rng = fresh_rng()
    args, options = _case(rng, 4, 32, "packed")
    rows = rng.standard_normal((40, options["K"])).astype(np.float32)
    options |= {"constants": (1, 2, 3), "accuracy_level": level}
    together = run_cpu("MatMulNBits", rows, *args[1:], **options)
    for index in (0, 17, 39):
        alone = run_cpu("MatMulNBits", rows[index : index + 1], *args[1:], **options)
        assert alone.tobytes() == together[index].tobytes()


def test_no_rows():
    args, options = _case(fresh_rng(), 4, 32, "none")
    got = run_cpu("MatMulNBits", args[0][:0], *args[1:], constants=(1, 2), **options)
    assert got.shape == (0, 3, options["N"])


def test_packed_weights_are_all_that_is_kept():
    args, options = _case(fresh_rng(), 4, 32, "packed")
    assert kernel_of(node_spec("MatMulNBits", *args, constants=(1, 2, 3), **options)).absorbed == (1, 2, 3, 4)
    assert kernel_of(node_spec("MatMulNBits", *args, constants=(1, 2), **options)).absorbed == ()


def test_columns_choose_their_group_by_g_idx():
    rng = fresh_rng()
    args, options = _case(rng, 4, 16, "packed")
    k = options["K"]
    groups = (rng.permutation(k) // 16).astype(np.int32)
    want, size = _exact(args, options, groups=groups)
    for constants in ((), (1, 2, 3, 4)):
        got = run_cpu("MatMulNBits", *args, groups, constants=constants, **options)
        assert (np.abs(got - want) <= 1e-4 * size).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_multiplied_in_float32(dtype):
    args, options = _case(fresh_rng(), 4, 32, "none")
    a, scales = args[0].astype(dtype), args[2].astype(dtype)
    wide = run_cpu("MatMulNBits", a.astype(np.float32), args[1], scales.astype(np.float32), **options)
    assert_same(run_cpu("MatMulNBits", a, args[1], scales, **options), wide.astype(dtype), rtol=0)
    packed = run_cpu("MatMulNBits", a, args[1], scales, constants=(1, 2), **options)
    assert_same(packed, wide.astype(dtype), rtol=1e-2, atol=1e-2)


def test_large_weights_go_by_in_parts(monkeypatch):
    args, options = _case(fresh_rng(), 4, 32, "packed")
    whole = run_cpu("MatMulNBits", *args, **options)
    monkeypatch.setattr("onnxgen.graph.cpu.ops.blockwise._ROW_ELEMENTS", 1)
    assert_same(run_cpu("MatMulNBits", *args, **options), whole, rtol=1e-4, atol=1e-4)


def test_empty_weights_are_zeros():
    a, bias = np.ones((2, 32), np.float32), np.arange(3, dtype=np.float32)
    b, scales = np.zeros((3, 0, 16), np.uint8), np.zeros((3, 0), np.float32)
    got = run_cpu(
        "MatMulNBits", a, b, scales, None, None, bias, N=3, K=32, bits=4, block_size=32, **MICROSOFT
    )
    assert got.tolist() == [[0, 1, 2]] * 2


def test_weights_packed_for_a_gpu_are_declined():
    args, options = _case(fresh_rng(), 4, 32, "none")
    claim = CPU.claim(node_spec("MatMulNBits", *args, weight_prepacked=1, **options))
    assert isinstance(claim, Decline) and "packed for a GPU" in claim.reason


@pytest.mark.parametrize("kind", [0, 1])
def test_four_bit_floats(kind):
    rng = fresh_rng()
    n, k = 5, 48
    args = (rng.standard_normal((3, k)).astype(np.float32), rng.integers(0, 256, n * k // 2).astype(np.uint8), rng.random(n * k // 16).astype(np.float32))  # fmt: skip
    options = {"N": n, "K": k, "block_size": 16, "quant_type": kind, "constants": (1, 2), **MICROSOFT}
    got = run_cpu("MatMulBnb4", *args, **options)
    assert_same(got, run_ort("MatMulBnb4", *args, **options), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_packed_bytes(bits, zeros):
    rng = fresh_rng()
    args = [rng.integers(0, 256, (7, 64 * bits // 8)).astype(np.uint8), rng.integers(-9, 9, (2, 3)), rng.random((7, 4)).astype(np.float32)]  # fmt: skip
    args += [rng.integers(0, 256, (7, -(-4 * bits // 8))).astype(np.uint8)] if zeros else []
    options = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1, **MICROSOFT}
    want = run_ort("GatherBlockQuantized", *args, **options)
    assert_same(run_cpu("GatherBlockQuantized", *args, **options), want, atol=1e-5)
    constants = (0, 2, 3) if zeros else (0, 2)
    assert_same(run_cpu("GatherBlockQuantized", *args, constants=constants, **options), want, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_rows_have_the_type_of_scales(dtype):
    rng = fresh_rng()
    scales = rng.random((300, 5)).astype(dtype)
    args = [rng.integers(0, 256, (300, 73)).astype(np.uint8), np.array([299, -300, 300, -301, 7]), scales]
    options = {"bits": 4, "block_size": 32, "gather_axis": 0, "quantize_axis": 1, **MICROSOFT}
    q = unpack(args[0], 4, 146)[[299, 0, 0, 0, 7]].astype(np.float32) - 8
    want = (q * np.repeat(scales[[299, 0, 0, 0, 7]].astype(np.float32), 32, 1)[:, :146]).astype(dtype)
    want[2:4] = 0
    for constants in ((), (0, 2)):
        assert_same(run_cpu("GatherBlockQuantized", *args, constants=constants, **options), want, rtol=0)


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4])
@pytest.mark.parametrize(("gathered", "blocked"), [(0, 2), (1, 2), (2, 2), (0, 1), (1, 0), (2, 1)])
def test_any_two_axes(dtype, gathered, blocked):
    rng = fresh_rng()
    data = rng.integers(0, 8, (20, 20, 20)).astype(dtype)
    shape = [20, 20, 20]
    shape[blocked] = 2
    scales, zeros = rng.random(shape).astype(np.float32), rng.integers(0, 8, shape).astype(dtype)
    indices = rng.integers(0, 20, (2, 2)).astype(np.int32)
    spread = [np.repeat(p.astype(np.float32), 16, blocked).take(range(20), blocked) for p in (scales, zeros)]
    expected = ((data.astype(np.float32) - spread[1]) * spread[0]).take(indices, gathered)
    options = {"block_size": 16, "gather_axis": gathered, "quantize_axis": blocked, **MICROSOFT}
    assert_same(run_cpu("GatherBlockQuantized", data, indices, scales, zeros, **options), expected, atol=1e-5)
