from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

MS = "com.microsoft"


def seeded():
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed)


def compare(op_type, *inputs, domain=MS, outputs=1, tolerance=2e-5, **options):
    """Both results agree in the outputs that are wanted."""
    got, want = (
        run(op_type, *inputs, domain=domain, outputs=outputs, **options) for run in (run_cpu, run_ort)
    )
    if isinstance(got, tuple):
        got = [value for value in got if value is not None]
    assert_same(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float16, 4e-3)])
@pytest.mark.parametrize("skip_shape", [(2, 5, 8), (1, 5, 8), (5, 8)])
def test_skips_are_added_before_the_norm(dtype, tolerance, skip_shape):
    rng = seeded()
    x, skip, gamma, beta, bias = (
        rng.standard_normal(s).astype(dtype) for s in ((2, 5, 8), skip_shape, 8, 8, 8)
    )
    outputs = [True, False, False, True]
    for more in ((beta, bias), (None, bias), (beta,), ()):
        compare("SkipLayerNormalization", x, skip, gamma, *more, outputs=outputs, tolerance=tolerance)
    for more in ((bias,), ()):
        compare(
            "SkipSimplifiedLayerNormalization", x, skip, gamma, *more, outputs=outputs, tolerance=tolerance
        )


def test_a_skip_must_fit():
    x = np.zeros((2, 5, 8), np.float32)
    with pytest.raises(KernelError, match="does not broadcast"):
        kernel_of(node_spec("SkipLayerNormalization", x, x, x[0, 0], domain=MS)).run(x[:1], x, x[0, 0])


@pytest.mark.parametrize("axis", [-1, 1])
def test_norms_that_exporters_put_into_the_standards_domain(axis):
    rng = seeded()
    x = rng.standard_normal((2, 5, 8)).astype(np.float32)
    scale, bias = (rng.standard_normal(x.shape[axis:]).astype(np.float32) for _ in range(2))
    compare("SimplifiedLayerNormalization", x, scale, domain="", opset=17, axis=axis)
    compare("LayerNormalization", x, scale, bias, domain="", opset=12, axis=axis, outputs=3)
    compare("LayerNormalization", x, scale, domain="", opset=12, axis=axis, epsilon=0.1)


def test_embeddings_are_added_and_normalized():
    rng = seeded()
    ids, segments = (rng.integers(0, high, (2, 5)).astype(np.int32) for high in (20, 2))
    words, positions, kinds, gamma, beta = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((20, 8), (6, 8), (2, 8), 8, 8)
    )
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    compare("EmbedLayerNormalization", ids, segments, words, positions, kinds, gamma, beta, mask, outputs=3)
    for rows in (1, 2):
        places = rng.integers(0, 6, (rows, 5)).astype(np.int32)
        inputs = (ids, None, words, positions, None, gamma, beta, None, places)
        compare("EmbedLayerNormalization", *inputs, outputs=3)


def test_a_word_outside_of_the_table_is_an_error():
    table, ids = np.zeros((3, 4), np.float32), np.array([[3]], np.int32)
    inputs = (ids, None, table, table, None, table[0], table[0])
    with pytest.raises(KernelError, match="index 3 is outside"):
        kernel_of(node_spec("EmbedLayerNormalization", *inputs, domain=MS)).run(*inputs)


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


def _scalar(value, dtype=np.float32):
    return np.array(value, dtype)


@pytest.mark.parametrize("segments", [False, True])
def test_quantized_embeddings(segments):
    rng = fresh_rng()
    ids, mask = rng.integers(0, 5, (2, 3)).astype(np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [_bytes(rng, np.uint8, rows, 8) for rows in (5, 4, 2)] + [
        _bytes(rng, np.uint8, 8) for _ in range(2)
    ]
    scales, zeros = [_scalar(0.1)] * 5, [_bytes(rng, np.uint8) for _ in range(5)]
    segment_ids = (ids > 2).astype(np.int32)
    if not segments:
        segment_ids = tables[2] = scales[2] = zeros[2] = None
    args = (ids, segment_ids, *tables, mask, *scales, *zeros)
    options = {"outputs": 2, "epsilon": 1e-5, "domain": "com.microsoft"}
    got = run_cpu("QEmbedLayerNormalization", *args, **options)
    assert_same(got, run_ort("QEmbedLayerNormalization", *args, **options), rtol=1e-3, atol=1e-3)
