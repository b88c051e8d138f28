"""FlexAttention without graphs inside."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import CPU, assert_same, fresh_rng, node_spec, run_cpu
from onnxgen.graph.ep.provider import Decline

DOMAIN = "ai.onnx.preview"


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_it_is_the_softmax_of_scaled_products(dtype):
    rng = fresh_rng()
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in ((2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)))
    keys, values = (np.repeat(x.astype(np.float64), 2, 1) for x in (k, v))
    powers = np.exp(q.astype(np.float64) @ keys.swapaxes(2, 3) * 0.25)
    expected = powers / powers.sum(-1, keepdims=True) @ values
    tolerance = 2e-3 if dtype is np.float16 else 1e-5
    got = run_cpu("FlexAttention", q, k, v, domain=DOMAIN, scale=0.25)
    assert_same(got, expected.astype(dtype), rtol=tolerance, atol=tolerance)


def test_graphs_inside_are_declined():
    x = np.ones((1, 1, 1, 2), np.float32)
    graph = ir.Graph((), (), nodes=())
    answer = CPU.claim(node_spec("FlexAttention", x, x, x, domain=DOMAIN, score_mod=graph))
    assert isinstance(answer, Decline) and "score_mod" in answer.reason
