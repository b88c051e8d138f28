from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError
from onnxgen.foundations.packed_bits import unpack
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.provider import Decline

MS = "com.microsoft"
EXPERTS, HIDDEN, INNER, TOKENS = 4, 32, 64, 5


class Numbers:
    def __init__(self):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape, scale=1.0):
        return (self.rng.standard_normal(shape) * scale).astype(np.float32)

    def codes(self, *shape):
        return self.rng.integers(0, 256, shape).astype(np.uint8)

    def scales(self, *shape):
        return (self.rng.random(shape) * 0.02 + 0.01).astype(np.float32)


def compare(op_type, *inputs, tolerance=3e-4, packed=True, **options):
    got, want = (run(op_type, *inputs, domain=MS, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=tolerance, atol=tolerance)
    if not packed:
        return
    constants = [index for index, value in enumerate(inputs) if value is not None and 2 <= index < 14]
    exact = run_cpu(op_type, *inputs, domain=MS, constants=constants, **options)
    assert_same(exact, got, rtol=1e-3, atol=1e-3 * np.abs(got).max())
    if op_type == "QMoE":
        rough = run_cpu(op_type, *inputs, domain=MS, constants=constants, accuracy_level=4, **options)
        assert np.abs(rough - got).max() <= 5e-2 * np.abs(got).max()


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
@pytest.mark.parametrize(("k", "normalize"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_tokens_go_through_their_best_experts(activation, k, normalize):
    make = Numbers()
    x, router = make.floats(TOKENS, HIDDEN), make.floats(TOKENS, EXPERTS)
    first, second = (
        make.floats(EXPERTS, INNER, HIDDEN, scale=0.2),
        make.floats(EXPERTS, HIDDEN, INNER, scale=0.2),
    )
    options = {"k": k, "normalize_routing_weights": normalize, "activation_type": activation}
    compare(
        "MoE", x, router, first, make.floats(EXPERTS, INNER), second, make.floats(EXPERTS, HIDDEN), **options
    )
    compare("MoE", x[None], router, first, None, second, **options)


@pytest.mark.parametrize(
    "options",
    [{}, {"swiglu_limit": 0.5}, {"activation_alpha": 1.7, "activation_beta": 1.0, "swiglu_limit": 7.0}],
    ids=str,
)
def test_gates_in_every_layout_are_the_interleaved_ones(options):
    make = Numbers()
    x, router = make.floats(TOKENS, HIDDEN), make.floats(TOKENS, EXPERTS)
    gate, up = (make.floats(EXPERTS, INNER, HIDDEN, scale=0.2) for _ in range(2))
    second = make.floats(EXPERTS, HIDDEN, INNER, scale=0.2)
    options = {"k": 2, "activation_type": "swiglu", **options}
    interleaved = np.stack([gate, up], axis=2).reshape(EXPERTS, 2 * INNER, HIDDEN)
    compare("MoE", x, router, interleaved, None, second, swiglu_fusion=1, **options)
    want = run_cpu("MoE", x, router, interleaved, None, second, domain=MS, swiglu_fusion=1, **options)
    halves = np.concatenate([gate, up], axis=1)
    got = run_cpu("MoE", x, router, halves, None, second, domain=MS, swiglu_fusion=2, **options)
    assert_same(got, want, atol=1e-5)
    for constants in ((), (2, 4, 6)):
        options["constants"] = constants
        got = run_cpu("MoE", x, router, gate, None, second, None, up, None, domain=MS, **options)
        assert_same(got, want, atol=1e-5)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("zero_points", [False, True])
def test_quantized_experts(bits, block, zero_points):
    make = Numbers()

    def scales(rows, columns):
        return make.scales(EXPERTS, rows, columns // block) if block else make.scales(EXPERTS, rows)

    def zeros(rows, columns):
        return (
            make.codes(EXPERTS, rows, -(-columns // block * bits // 8))
            if block
            else make.codes(EXPERTS, rows * bits // 8)
        )

    for activation, factor in (("swiglu", 2), ("silu", 1)):
        rows = factor * INNER
        inputs = [
            *(make.floats(TOKENS, HIDDEN), make.floats(TOKENS, EXPERTS)),
            *(
                make.codes(EXPERTS, rows, HIDDEN * bits // 8),
                scales(rows, HIDDEN),
                make.floats(EXPERTS, rows),
            ),
            *(
                make.codes(EXPERTS, HIDDEN, INNER * bits // 8),
                scales(HIDDEN, INNER),
                make.floats(EXPERTS, HIDDEN),
            ),
        ]
        if zero_points:
            inputs += [None, None, None, zeros(rows, HIDDEN), zeros(HIDDEN, INNER)]
        options = {"k": 2, "expert_weight_bits": bits, "activation_type": activation, "weights_prepacked": 0}
        options |= {"swiglu_fusion": factor - 1, "normalize_routing_weights": 1}
        options |= {"block_size": block} if block else {}
        # ONNX Runtime quantizes activations to 8 bits in some of these.
        compare("QMoE", *inputs, tolerance=5e-2, packed=bits == 4, **options)


@pytest.mark.parametrize("normalize", [0, 1])
@pytest.mark.parametrize("mixed", [False, True])
def test_selection_and_mixing_may_differ(normalize, mixed):
    make = Numbers()
    inputs = [
        *(make.floats(TOKENS, HIDDEN), make.floats(TOKENS, EXPERTS)),
        *(make.codes(EXPERTS, INNER, HIDDEN // 2), make.scales(EXPERTS, INNER), None),
        *(make.codes(EXPERTS, HIDDEN, INNER // 2), make.scales(EXPERTS, HIDDEN), None),
    ]
    if mixed:
        inputs += [None] * 6 + [np.abs(make.floats(TOKENS, EXPERTS))]
    compare("QMoE", *inputs, k=2, normalize_routing_weights=normalize, activation_type="silu", tolerance=5e-2)


def test_what_is_not_done_is_declined_with_its_reason():
    for op_type, options in [
        ("MoE", {"activation_type": "mish"}),
        ("MoE", {"use_sparse_mixer": 1}),
        ("QMoE", {"quant_type": "fp4"}),
        ("QMoE", {"weights_prepacked": 1}),
    ]:
        assert isinstance(CpuProvider().claim(node_spec(op_type, domain=MS, **options)), Decline)


def test_a_router_must_have_a_row_for_each_token():
    inputs = np.zeros((3, 4)), np.zeros((2, 5)), np.zeros((5, 6, 4)), None, np.zeros((5, 4, 6))
    with pytest.raises(KernelError, match=r"router \(2, 5\) does not fit 3 tokens"):
        kernel_of(node_spec("MoE", *inputs, domain=MS)).run(*inputs)


@pytest.mark.parametrize(
    ("bits", "block", "level", "dtype"),
    [
        (2, 16, 0, np.float32),
        (3, 16, 4, np.float32),
        (4, 0, 4, np.float16),
        (4, 16, 0, np.float16),
        (8, 0, 0, np.float32),
    ],
)
def test_packed_experts_against_float64(bits, block, level, dtype):
    make = Numbers()
    x, router = make.floats(TOKENS, HIDDEN).astype(dtype), make.floats(TOKENS, EXPERTS).astype(dtype)
    blocks = HIDDEN // block if block else 1
    codes = [
        make.codes(EXPERTS, rows, columns * bits // 8)
        for rows, columns in ((2 * INNER, HIDDEN), (HIDDEN, INNER))
    ]
    scales = [
        make.scales(EXPERTS, 2 * INNER, blocks),
        make.scales(EXPERTS, HIDDEN, INNER // block if block else 1),
    ]
    biases = [make.floats(EXPERTS, 2 * INNER), make.floats(EXPERTS, HIDDEN)]
    given = [scale if block else scale[..., 0] for scale in scales]
    inputs = [
        x,
        router,
        codes[0],
        given[0].astype(dtype),
        biases[0],
        codes[1],
        given[1].astype(dtype),
        biases[1],
    ]

    def matrix(layer, expert):
        columns = (HIDDEN, INNER)[layer]
        q = unpack(codes[layer][expert], bits, columns).astype(np.float64) - 2 ** (bits - 1)
        return q * np.repeat(
            given[layer].astype(dtype)[expert].reshape(len(q), -1), block or columns, 1
        ).astype(np.float64)

    want = np.zeros((TOKENS, HIDDEN))
    for token in range(TOKENS):
        best = np.argsort(-router[token].astype(np.float64), kind="stable")[:2]
        shares = np.exp(router[token, best].astype(np.float64))
        for expert, share in zip(best, shares / shares.sum(), strict=True):
            hidden = matrix(0, expert) @ x[token].astype(np.float64) + biases[0][expert]
            gate, up = hidden[::2], hidden[1::2]
            inner = gate / (1 + np.exp(-gate)) * up
            want[token] += share * (matrix(1, expert) @ inner + biases[1][expert])
    options = {
        "k": 2,
        "expert_weight_bits": bits,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "accuracy_level": level,
    }
    options |= {"block_size": block} if block else {}
    got = run_cpu("QMoE", *inputs, constants=range(2, 8), domain=MS, **options)
    assert got.dtype == dtype
    assert (
        np.abs(got - want).max()
        <= (2e-2 if level else 1e-3 if dtype == np.float16 else 1e-4) * np.abs(want).max()
    )


def test_a_token_is_the_same_among_others():
    make = Numbers()
    x, router = make.floats(70, HIDDEN), make.floats(70, EXPERTS)
    weights = [
        *(make.codes(EXPERTS, 2 * INNER, HIDDEN // 2), make.scales(EXPERTS, 2 * INNER, 2), None),
        *(make.codes(EXPERTS, HIDDEN, INNER // 2), make.scales(EXPERTS, HIDDEN, 4), None),
    ]
    options = {
        "k": 2,
        "block_size": 16,
        "activation_type": "swiglu",
        "swiglu_fusion": 1,
        "domain": MS,
        "constants": (2, 3, 5, 6),
    }
    together = run_cpu("QMoE", x, router, *weights, **options)
    for token in (0, 33, 69):
        alone = run_cpu("QMoE", x[token : token + 1], router[token : token + 1], *weights, **options)
        assert alone.tobytes() == together[token].tobytes()


def test_no_tokens():
    make = Numbers()
    x, router = make.floats(0, HIDDEN), make.floats(0, EXPERTS)
    weights = make.floats(EXPERTS, INNER, HIDDEN), None, make.floats(EXPERTS, HIDDEN, INNER)
    for constants in ((), (2, 4)):
        assert run_cpu("MoE", x, router, *weights, domain=MS, k=2, constants=constants).shape == (0, HIDDEN)
