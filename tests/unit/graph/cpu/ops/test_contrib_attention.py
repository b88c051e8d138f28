from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import CPU, assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError
from onnxgen.graph.ep.provider import Decline

MS = "com.microsoft"
BATCH, SEQ, HEADS, DIM = 2, 3, 2, 4
HIDDEN = HEADS * DIM


class Numbers:
    def __init__(self):
        self.seed = int(np.random.default_rng().integers(2**31))
        print("seed", self.seed)
        self.rng = np.random.default_rng(self.seed)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def mask(self, *shape):
        mask = self.rng.integers(0, 2, shape).astype(np.int32)
        mask[..., 0] = 1  # a row without any key amplifies rounding
        return mask


def int32(*values):
    return np.array(values, np.int32)


def compare(op_type, *inputs, outputs=1, **options):
    wanted = [True] * outputs if isinstance(outputs, int) else outputs
    types = [ir.DataType.FLOAT] * len(wanted)
    options |= {"domain": MS, "outputs": outputs, "output_types": types, "num_heads": HEADS}
    got, want = (run(op_type, *inputs, **options) for run in (run_cpu, run_ort))
    if isinstance(got, tuple):
        got = [value for value in got if value is not None]
    assert_same(got, want, rtol=5e-5, atol=5e-5)


@pytest.mark.parametrize(
    "options", [{}, {"unidirectional": 1}, {"scale": 0.3}, {"mask_filter_value": -50.0}], ids=str
)
@pytest.mark.parametrize("form", ["none", "ends", "ends and starts", "keys", "rows"])
def test_attention_with_every_form_of_mask(options, form):
    make = Numbers()
    mask = {
        "none": None,
        "ends": int32(2, 3),
        "ends and starts": int32(2, 3, 0, 1),
        "keys": make.mask(BATCH, SEQ),
        "rows": make.mask(BATCH, SEQ, SEQ),
    }[form]
    inputs = make.floats(BATCH, SEQ, 6), make.floats(6, 3 * HIDDEN), make.floats(3 * HIDDEN)
    compare("Attention", *inputs, mask, **options)


@pytest.mark.parametrize("form", ["none", "keys", "rows"])
def test_attention_over_a_past(form):
    make = Numbers()
    mask = {"none": None, "keys": make.mask(BATCH, SEQ + 2), "rows": make.mask(BATCH, SEQ, SEQ + 2)}[form]
    inputs = make.floats(BATCH, SEQ, 6), make.floats(6, 3 * HIDDEN), make.floats(3 * HIDDEN)
    compare("Attention", *inputs, mask, make.floats(2, BATCH, HEADS, 2, DIM), outputs=2, unidirectional=1)


def test_values_may_be_wider_and_scores_biased():
    make = Numbers()
    x = make.floats(BATCH, SEQ, 6)
    compare("Attention", x, make.floats(6, 28), make.floats(28), qkv_hidden_sizes=[8, 8, 12])
    for shape in ((BATCH, HEADS, SEQ, SEQ), (1, 1, SEQ, SEQ)):
        compare("Attention", x, make.floats(6, 24), make.floats(24), None, None, make.floats(*shape))


def test_a_shared_buffer_is_written_at_the_past_length():
    make = Numbers()
    x, weights, bias = make.floats(BATCH, 1, 6), make.floats(6, 3 * HIDDEN), make.floats(3 * HIDDEN)
    buffer, past = make.floats(2, BATCH, HEADS, 9, DIM), 4
    options = {"domain": MS, "num_heads": HEADS, "outputs": 2}
    got = run_cpu(
        "Attention", x, weights, bias, None, buffer, None, int32(past), past_present_share_buffer=1, **options
    )
    want = run_cpu("Attention", x, weights, bias, None, buffer[:, :, :, :past], **options)
    assert_same(got[0], want[0])
    assert_same(got[1][:, :, :, : past + 1], want[1])
    assert_same(got[1][:, :, :, past + 1 :], buffer[:, :, :, past + 1 :])


@pytest.mark.parametrize("options", [{}, {"unidirectional": 1}, {"scale": 0.3}], ids=str)
def test_multi_head_attention_of_projected_inputs(options):
    make = Numbers()
    query, key, value = (
        make.floats(BATCH, SEQ, HIDDEN),
        make.floats(BATCH, SEQ, HIDDEN),
        make.floats(BATCH, SEQ, 12),
    )
    compare("MultiHeadAttention", query, key, value, make.floats(28), **options)
    compare("MultiHeadAttention", query, key, query + 1, outputs=3, **options)
    pasts = [make.floats(BATCH, HEADS, 2, DIM) for _ in range(2)]
    bias = make.floats(BATCH, 1, SEQ, SEQ + 2)
    compare("MultiHeadAttention", query, key, query + 1, None, None, bias, *pasts, outputs=4, **options)


@pytest.mark.parametrize("form", ["ends", "keys", "rows"])
def test_cross_attention_with_padding(form):
    make = Numbers()
    length = 5
    mask = {"ends": int32(2, 5), "keys": make.mask(BATCH, length), "rows": make.mask(BATCH, SEQ, length)}[
        form
    ]
    query, key, value = (
        make.floats(BATCH, SEQ, HIDDEN),
        *(make.floats(BATCH, length, HIDDEN) for _ in range(2)),
    )
    compare(
        "MultiHeadAttention", query, key, value, make.floats(24), mask, make.floats(BATCH, HEADS, SEQ, length)
    )
    cached = [make.floats(BATCH, HEADS, length, DIM) for _ in range(2)]
    compare("MultiHeadAttention", query, *cached, make.floats(24))


def test_packings_are_the_separate_inputs():
    make = Numbers()
    q, k, v = (make.floats(BATCH, SEQ, HEADS, DIM) for _ in range(3))
    options = {"domain": MS, "num_heads": HEADS}
    want = run_cpu("MultiHeadAttention", *(part.reshape(BATCH, SEQ, HIDDEN) for part in (q, k, v)), **options)
    assert_same(run_cpu("MultiHeadAttention", np.stack([q, k, v], axis=3), **options), want)
    pair = np.stack([k, v], axis=3)
    assert_same(run_cpu("MultiHeadAttention", q.reshape(BATCH, SEQ, HIDDEN), pair, **options), want)


@pytest.mark.parametrize("op_type", ["MultiHeadAttention", "DecoderMaskedMultiHeadAttention"])
@pytest.mark.parametrize("beams", [False, True])
def test_one_token_over_a_shared_cache(op_type, beams):
    make = Numbers()
    parts = [make.floats(BATCH, 1, HIDDEN) for _ in range(3)]
    caches = [make.floats(BATCH, HEADS, 9, DIM) for _ in range(2)]
    origins = make.rng.integers(0, 2, (1, BATCH, 9)).astype(np.int32)
    if op_type == "MultiHeadAttention":
        inputs = [*parts, None, None, None, *caches, int32(4), *([origins] if beams else [])]
        compare(op_type, *inputs, outputs=3)
    else:
        more = [int32(2), origins] if beams else []
        inputs = [*parts, make.mask(BATCH, 5), None, *caches, int32(4), *more]
        compare(op_type, *inputs, outputs=3, past_present_share_buffer=1)


def test_decoding_over_another_sequences_keys():
    make = Numbers()
    query, cached = make.floats(BATCH, 1, HIDDEN), [make.floats(BATCH, HEADS, 5, DIM) for _ in range(2)]
    compare("DecoderMaskedMultiHeadAttention", query, *cached, make.mask(BATCH, 5))
    outputs = [True, False, False, True]
    compare("DecoderMaskedMultiHeadAttention", query, *cached, outputs=outputs, output_qk=1)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((np.zeros((1, 2, 6)), np.zeros((6, 25))), "do not fit weights"),
        ((np.zeros((1, 2, 6)), np.zeros((6, 24)), None, np.zeros(4, np.int32)), "a mask of 4 numbers"),
        ((np.zeros((1, 2, 6)), np.zeros((6, 24)), None, np.zeros((1, 3), np.int32)), "with 2 keys"),
    ],
)
def test_what_does_not_fit_is_an_error(inputs, message):
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec("Attention", *inputs, domain=MS, num_heads=2)).run(*inputs)


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), dtype)


def _scalar(value, dtype=np.float32):
    return np.array(value, dtype)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_of_quantized_inputs(columns, unidirectional):
    rng = fresh_rng()
    batch, seq, features, heads, head_dim = 2, 4, 6, 3, 2
    width = 3 * heads * head_dim
    sizes = (width,) if columns else ()
    args = (_bytes(rng, np.uint8, batch, seq, features), _bytes(rng, np.int8, features, width), rng.standard_normal(width).astype(np.float32), _scalar(0.01), np.asarray(rng.random(sizes) * 0.02, np.float32), np.array([2, 4], np.int32), _scalar(120, np.uint8), np.full(sizes, 3, np.int8))  # fmt: skip
    options = {"num_heads": heads, "unidirectional": unidirectional, "domain": "com.microsoft"}
    assert_same(
        run_cpu("QAttention", *args, **options), run_ort("QAttention", *args, **options), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("op_type", ["Attention", "QAttention"])
def test_rotation_inside_the_operator_is_declined(op_type):
    x = np.ones((1, 2, 4), np.float32)
    claim = CPU.claim(node_spec(op_type, x, x[0], num_heads=2, do_rotary=1, domain="com.microsoft"))
    assert isinstance(claim, Decline)
    assert "do_rotary" in claim.reason
