from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

MS = "com.microsoft"
RULES = ["linear", "gated", "delta", "gated_delta"]
BATCH, SEQ, KEY, VALUE = 2, 5, 4, 6


class Numbers:
    def __init__(self):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def units(self, *shape):
        x = self.floats(*shape)
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    def rates(self, *shape):
        return self.rng.random(shape).astype(np.float32)


def compare(op_type, *inputs, outputs, **options):
    while inputs[-1] is None:
        inputs = inputs[:-1]
    options |= {"domain": MS, "outputs": outputs, "output_types": [ir.DataType.FLOAT] * outputs}
    got, want = (run(op_type, *inputs, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-4, atol=1e-4)


def padded_inputs(make, rule, heads, kv_heads, *, wide):
    decay = -make.rates(BATCH, SEQ, kv_heads * (KEY if wide else 1)) if "gated" in rule else None
    return [
        make.floats(BATCH, SEQ, heads * KEY),
        make.units(BATCH, SEQ, kv_heads, KEY).reshape(BATCH, SEQ, -1),
        make.floats(BATCH, SEQ, kv_heads * VALUE),
        make.floats(BATCH, kv_heads, KEY, VALUE),
        decay,
        make.rates(BATCH, SEQ, kv_heads) if "delta" in rule else None,
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (2, 4)])
@pytest.mark.parametrize("wide", [False, True])
def test_padded_batches(rule, heads, kv_heads, wide):
    inputs = padded_inputs(Numbers(), rule, heads, kv_heads, wide=wide)
    options = {"update_rule": rule, "q_num_heads": heads, "kv_num_heads": kv_heads}
    compare("LinearAttention", *inputs, outputs=2, **options)
    inputs[3] = None
    compare("LinearAttention", *inputs, outputs=2, scale=0.5, **options)


@pytest.mark.parametrize("window", [2, 7])
def test_a_window_of_states_has_that_after_each_of_the_last_tokens(window):
    q, k, v, past, decay, beta = padded_inputs(Numbers(), "gated_delta", 2, 2, wide=False)
    options = {"domain": MS, "q_num_heads": 2, "kv_num_heads": 2, "outputs": 2}
    pasts = np.concatenate([np.full((window - 1, *past.shape), np.nan, np.float32), past[None]])
    output, states = run_cpu("LinearAttention", q, k, v, pasts, decay, beta, state_window=window, **options)
    for slot in range(window):
        count = SEQ - window + slot + 1
        if count < 1:
            assert not states[slot].any()
            continue
        want = run_cpu(
            "LinearAttention",
            *(x[:, :count] for x in (q, k, v)),
            past,
            decay[:, :count],
            beta[:, :count],
            **options,
        )
        assert_same(states[slot], want[1])
        assert_same(output[:, :count], want[0])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("heads", "value_heads"), [(2, 2), (2, 4)])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"gate_activation": "softplus", "beta_activation": "sigmoid", "qk_l2_norm": 1},
        {"gate_activation": "kda", "qk_l2_norm": 1},
        {"state_update_capacity": 2, "qk_l2_norm": 1},
    ],
    ids=str,
)
def test_packed_sequences(rule, heads, value_heads, wide, options):
    make, tokens = Numbers(), 7
    if "gate_activation" in options and "gated" not in rule:
        options = {"qk_l2_norm": 1}
    decay = -make.rates(tokens, value_heads, *([KEY] if wide else [])) if "gated" in rule else None
    activated = "gate_activation" in options
    inputs = [
        *(
            make.floats(tokens, heads, KEY),
            make.units(tokens, heads, KEY),
            make.floats(tokens, value_heads, VALUE),
        ),
        *(np.array([0, 3, 7], np.int32), decay, make.rates(tokens, value_heads) if "delta" in rule else None),
        *(make.floats(2, value_heads, VALUE, KEY), make.floats(value_heads) if activated else None),
        make.floats(value_heads) if activated else None,
        np.array([1, 5], np.int32) if "state_update_capacity" in options else None,
    ]
    outputs = 3 if "state_update_capacity" in options else 2
    compare("GatedDeltaNet", *inputs, outputs=outputs, update_rule=rule, **options)


def test_uniform_packings_are_the_ragged_one():
    make = Numbers()
    q, k, v = make.floats(2, 3, 2, KEY), make.units(2, 3, 2, KEY), make.floats(2, 3, 2, VALUE)
    decay, beta, state = -make.rates(2, 3, 2), make.rates(2, 3, 2), make.floats(2, 2, VALUE, KEY)
    compare("GatedDeltaNet", q, k, v, None, decay, beta, state, outputs=2)
    flat = [x.reshape(6, *x.shape[2:]) for x in (q, k, v, decay, beta)]
    packed = np.concatenate([x.reshape(6, -1) for x in flat[:3]], axis=1)
    compare("GatedDeltaNet", packed, None, None, None, *flat[3:], state, outputs=2)


def test_what_does_not_fit_is_an_error():
    make = Numbers()
    q, k, v, past, *_ = padded_inputs(make, "linear", 2, 2, wide=False)
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    with pytest.raises(KernelError, match="needs the input decay"):
        kernel_of(node_spec("LinearAttention", q, k, v, past, domain=MS, **heads)).run(q, k, v, past)
    with pytest.raises(InvalidGraphError, match="update_rule 'square'"):
        kernel_of(node_spec("LinearAttention", q, k, v, domain=MS, update_rule="square", **heads))
    with pytest.raises(InvalidGraphError, match="do not group"):
        kernel_of(node_spec("LinearAttention", q, k, v, domain=MS, q_num_heads=3, kv_num_heads=2))
    rows = make.floats(4, 2, KEY)
    node = node_spec("GatedDeltaNet", rows, rows, rows, domain=MS, update_rule="linear")
    with pytest.raises(KernelError, match="needs cu_seqlens"):
        kernel_of(node).run(rows, rows, rows)
    with pytest.raises(KernelError, match="do not divide 4 tokens"):
        kernel_of(node).run(rows, rows, rows, np.array([0, 3]))
