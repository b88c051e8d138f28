"""Matrix products with transpositions and activations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort


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
