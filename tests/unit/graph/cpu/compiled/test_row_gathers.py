"""Rows of a table by number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.isa import Isa, host_isa
from onnxgen.graph.cpu.row_kernels import embed_kernel, wanted_rows_kernel
from onnxgen.graph.cpu.step.running import run_parts
from row_runs import header_of, rows_at, strided

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("isa", list(dict.fromkeys([host_isa(), Isa.GENERIC])))
@pytest.mark.parametrize("elements", DTYPES)
@pytest.mark.parametrize("width", [1, 16, 45, 576])
def test_rows_of_tokens_are_copied_times_a_factor(width, elements, isa):
    rng = fresh_rng()
    table = strided(rng.standard_normal((50, width)).astype(DTYPES[elements]))
    table[3, 0] = 65504 if elements == "float16" else 3e38
    table[4, 0] = 6e-8 if elements == "float16" else 1e-38
    ids = np.array([3, 4, 49, 0, 49, *rng.integers(0, 50, 6)], np.int64)
    y = strided(np.zeros((len(ids), width), np.float32), 2)
    for parts in (1, 4):
        run_parts(
            embed_kernel(elements, isa),
            parts=parts,
            header=header_of(tokens=len(ids), token_ids=ids.ctypes.data),
            width=width,
            factor=0.75,
            **rows_at("table", table),
            **rows_at("y", y),
        )
        np.testing.assert_array_equal(y, table[ids].astype(np.float32) * np.float32(0.75))
        y[...] = 0


@pytest.mark.parametrize("width", [1, 45, 576])
def test_wanted_rows_are_copied(width):
    x = strided(fresh_rng().standard_normal((12, width)).astype(np.float32))
    wanted = np.array([11, 0, 5, 5], np.int64)
    y = np.zeros((4, width), np.float32)
    run_parts(
        wanted_rows_kernel(),
        parts=3,
        header=header_of(rows=4, logits_rows=wanted.ctypes.data),
        width=width,
        **rows_at("x", x),
        **rows_at("y", y),
    )
    np.testing.assert_array_equal(y, x[wanted])
