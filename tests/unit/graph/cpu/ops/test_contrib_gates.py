from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

MS = "com.microsoft"


def compare(op_type, *inputs, tolerance, outputs=1, **options):
    got, want = (run(op_type, *inputs, domain=MS, outputs=outputs, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=tolerance, atol=tolerance)


class Numbers:
    def __init__(self, dtype=np.float32):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng, self.dtype = np.random.default_rng(seed), dtype

    def __call__(self, *shape, dtype=None):
        return self.rng.standard_normal(shape).astype(dtype or self.dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float16, 4e-3)])
def test_gates_are_the_runtimes(dtype, tolerance):
    make, t = Numbers(dtype), {"tolerance": tolerance}
    for activation in ("silu", "sigmoid"):
        compare("GatedRMSNorm", make(2, 3, 8), make(4), make(2, 3, 8), activation=activation, **t)
    for scale in (make(8), make(4), make(2, 4)):
        compare("BranchwiseRMSNorm", make(2, 3, 8), scale, num_branches=2, **t)
    compare("BranchwiseRMSNorm", make(2, 3, 8), make(3, 8), **t)
    compare("BranchwiseRMSNorm", make(2, 3, 8), **t)
    vectors = make(4, dtype=np.float32), make(4, dtype=np.float32)
    compare("LinearAttentionGate", make(2, 3, 4), *vectors, make(2, 3, 4), outputs=2, **t)
    compare("GatedAdd", make(2, 3, 4), make(2, 3, 4), make(2, 3, 1), **t)
    compare("ScaledSiLU", make(2, 3), alpha=0.5, **t)
    compare("ScaledSiLU", make(2, 3), make(), alpha=0.5, **t)
    keys = make(2, 3, 2, 8), make(2, 3, 2, 8), make(2, 3, 8)
    compare("EngramGate", *keys, make(2, 8), make(2, 8), make(2, 8), outputs=2, **t)


@pytest.mark.parametrize(
    ("groups", "open_groups", "k", "members"), [(1, 1, 2, 2), (4, 2, 3, 2), (4, 1, 2, 1), (2, 2, 4, 9)]
)
def test_experts_are_chosen_by_groups(groups, open_groups, k, members):
    make = Numbers()
    options = {"top_k": k, "n_group": groups, "topk_group": open_groups, "group_topk": members}
    compare("MoEGroupRouter", make(5, 8), make(8), tolerance=1e-4, **options)


def test_all_scores_of_experts():
    make = Numbers()
    options = {
        "top_k": 2,
        "outputs": [False, True, True],
        "output_types": [ir.DataType.FLOAT] * 3,
        "domain": MS,
    }
    logits, bias = make(5, 8), make(8)
    got, want = (run("MoEGroupRouter", logits, bias, **options) for run in (run_cpu, run_ort))
    assert_same([value for value in got if value is not None], want)


@pytest.mark.parametrize(
    "options", [{}, {"limit": 0.5}, {"activation_alpha": 1.7, "activation_beta": 1.0}], ids=str
)
def test_swiglu_is_its_formula(options):
    make = Numbers()
    gate, up = make(3, 6), make(3, 6)
    g, u = gate.astype(np.float64), up.astype(np.float64)
    if "limit" in options:
        g, u = np.minimum(g, 0.5), np.clip(u, -0.5, 0.5)
    want = (
        g
        / (1 + np.exp(-options.get("activation_alpha", 1.0) * g))
        * (u + options.get("activation_beta", 0.0))
    )
    for inputs in ((gate, up), (np.concatenate([gate, up], axis=1),)):
        for rounds in (0, 1):
            got = run_cpu("SwiGLU", *inputs, domain=MS, round_activation=rounds, **options)
            assert_same(got, want.astype(np.float32), atol=1e-6)


def test_what_does_not_fit_is_an_error():
    x = np.zeros((2, 6), np.float32)
    with pytest.raises(KernelError, match="does not fit input"):
        kernel_of(node_spec("GatedRMSNorm", x, x[0, :4], x, domain=MS)).run(x, x[0, :4], x)
    with pytest.raises(InvalidGraphError, match="'tanh'"):
        kernel_of(node_spec("GatedRMSNorm", x, x[0], x, domain=MS, activation="tanh"))
    with pytest.raises(KernelError, match="6 experts do not make 4 groups"):
        kernel_of(node_spec("MoEGroupRouter", x, x[0], domain=MS, top_k=1, n_group=4)).run(x, x[0])
