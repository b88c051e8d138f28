"""FlexAttention with graphs, against the formula in float64."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from graph_running import all_outputs, compiled
from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.optimizer import OptimizationLevel

BOTH = """
<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview" : 1]>
g (TYPE[B, 4, L, 8] q, TYPE[B, 2, S, 8] k, TYPE[B, 2, S, 6] v, SOFT cap, SOFT[L, S] kept) => (TYPE[B, 4, L, 6] y) {
    y = ai.onnx.preview.FlexAttention <scale = 0.25, PRECISION
        score_mod = s (SOFT[B, 4, L, S] scores) => (SOFT[B, 4, L, S] capped) {
            small = Div (scores, cap)
            bent = Tanh (small)
            capped = Mul (bent, cap)
        },
        prob_mod = p (SOFT[B, 4, L, S] probs) => (SOFT[B, 4, L, S] dropped) { dropped = Mul (probs, kept) }
    > (q, k, v)
}
"""
IDENTITY = """
<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview" : 1]>
g (float[1, 1, L, 2] q, float[1, 1, S, 2] k, float[1, 1, S, 2] v) => (float[1, 1, L, 2] y) {
    y = ai.onnx.preview.FlexAttention <
        score_mod = s (float[1, 1, L, S] scores) => (float[1, 1, L, S] same) { same = BODY (scores) }
    > (q, k, v)
}
"""


@pytest.mark.parametrize("level", [OptimizationLevel.DISABLED, OptimizationLevel.ALL])
@pytest.mark.parametrize(
    ("kind", "precision", "soft", "tolerance"),
    [
        ("float", None, "float", 1e-5),
        ("double", None, "double", 1e-12),
        ("float16", None, "float", 5e-3),
        ("float", 10, "float16", 2e-2),
        ("float16", 11, "double", 5e-3),
    ],
)
def test_graphs_change_scores_and_probabilities_with_outer_values(kind, precision, soft, tolerance, level):
    text = BOTH.replace("TYPE", kind).replace("SOFT", soft)
    text = text.replace("PRECISION", "" if precision is None else f"softmax_precision = {precision},")
    executable = compiled(onnx.parser.parse_model(text), level=level)
    names = {"float": np.float32, "double": np.float64, "float16": np.float16}
    rng = fresh_rng()
    for queries, keys in ((3, 5), (3, 5), (3, 5), (1, 7)):
        q, k, v = (
            rng.standard_normal(shape).astype(names[kind])
            for shape in ((2, 4, queries, 8), (2, 2, keys, 8), (2, 2, keys, 6))
        )
        kept = (rng.random((queries, keys)) < 0.5).astype(names[soft])
        cap = np.array(2, names[soft])
        (y,) = all_outputs(executable, {"q": q, "k": k, "v": v, "cap": cap, "kept": kept})
        wide_k, wide_v = (np.repeat(x.astype(np.float64), 2, axis=1) for x in (k, v))
        powers = np.exp(np.tanh(q.astype(np.float64) @ wide_k.swapaxes(2, 3) * 0.25 / 2) * 2)
        want = powers / powers.sum(-1, keepdims=True) * kept @ wide_v
        assert y.dtype == names[kind]
        np.testing.assert_allclose(y, want, rtol=tolerance, atol=tolerance)


def test_a_graph_that_changes_nothing():
    rng = fresh_rng()
    q, k, v = (rng.standard_normal((1, 1, size, 2)).astype(np.float32) for size in (3, 4, 4))
    feeds = {"q": q, "k": k, "v": v}
    bare = IDENTITY[: IDENTITY.index("<\n")] + IDENTITY[IDENTITY.index("> (q") + 1 :]
    (want,) = all_outputs(compiled(onnx.parser.parse_model(bare)), feeds)
    (got,) = all_outputs(compiled(onnx.parser.parse_model(IDENTITY.replace("BODY", "Identity"))), feeds)
    np.testing.assert_array_equal(got, want)


def test_a_graph_keeps_the_shape():
    model = onnx.parser.parse_model(IDENTITY.replace("BODY", "ReduceMax"))
    x = np.ones((1, 1, 3, 2), np.float32)
    with pytest.raises(KernelError, match="type and shape must stay"):
        all_outputs(compiled(model), {"q": x, "k": x, "v": x})
