import secrets

import numpy as np
import pytest

from onnxgen.backends.adapters import Adapter, LoraPair
from onnxgen.backends.lora_places import Linear, place_pairs, spot_of_module, spot_of_node
from onnxgen.errors import ModelFileError

HIDDEN, HEADS, KV_HEADS, DIM, FFN = 10, 3, 1, 4, 7
SEED = secrets.randbits(32)


def linears(*, fused):
    attn, mlp = "/model/layers.0/attn", "/model/layers.0/mlp"
    heads = (HEADS, KV_HEADS)
    q, kv = HEADS * DIM, KV_HEADS * DIM
    if fused:
        first = [
            Linear(f"{attn}/qkv_proj/MatMulNBits", HIDDEN, q + 2 * kv, heads),
            Linear(f"{mlp}/gate_up_proj/MatMul", HIDDEN, 2 * FFN),
        ]
    else:
        first = [
            Linear(f"{attn}/q_proj/MatMul", HIDDEN, q),
            Linear(f"{attn}/k_proj/MatMul", HIDDEN, kv),
            Linear(f"{attn}/v_proj/MatMul", HIDDEN, kv),
            Linear(f"{mlp}/gate_proj/MatMul", HIDDEN, FFN),
            Linear(f"{mlp}/up_proj/MatMul", HIDDEN, FFN),
        ]
    return [*first, Linear(f"{attn}/o_proj/MatMul", q, HIDDEN), Linear("/lm_head/MatMul", HIDDEN, 33)]


def pair(rng, rank, columns, rows):
    return LoraPair(
        rng.standard_normal((rank, columns)).astype(np.float32),
        rng.standard_normal((rows, rank)).astype(np.float32),
    )


def adapter(**pairs):
    return Adapter("a", source="folder", digest="", pairs={k.replace("__", "."): v for k, v in pairs.items()})


def module(name):
    return f"model__layers__0__{name}"


@pytest.mark.parametrize(
    ("checkpoint", "graph"),
    [
        ("model.layers.3.self_attn.q_proj", "/model/layers.3/attn/q_proj/MatMulNBits"),
        ("model.language_model.layers.12.mlp.down_proj", "/model/layers.12/mlp/down_proj/MatMul"),
        ("lm_head", "/lm_head/FusedMatMul"),
    ],
)
def test_checkpoints_and_graphs_mean_the_same_layer(checkpoint, graph):
    assert spot_of_module(checkpoint) == spot_of_node(graph)


def test_parts_are_put_into_their_columns_of_a_fused_product():
    rng = np.random.default_rng(SEED)
    q, v = pair(rng, 2, HIDDEN, HEADS * DIM), pair(rng, 3, HIDDEN, DIM)
    up = pair(rng, 2, HIDDEN, FFN)
    placed = place_pairs(
        adapter(
            **{module("self_attn__q_proj"): q, module("self_attn__v_proj"): v, module("mlp__up_proj"): up}
        ),
        linears(fused=True),
    )
    assert set(placed) == {
        "/model/layers.0/attn/qkv_proj/MatMulNBits",
        "/model/layers.0/mlp/gate_up_proj/MatMul",
    }
    attn = placed["/model/layers.0/attn/qkv_proj/MatMulNBits"]
    delta = np.concatenate([q.b @ q.a, np.zeros((DIM, HIDDEN), np.float32), v.b @ v.a])
    np.testing.assert_allclose(attn.b @ attn.a, delta, atol=1e-5, err_msg=f"seed {SEED}")
    mlp = placed["/model/layers.0/mlp/gate_up_proj/MatMul"]
    np.testing.assert_allclose(
        mlp.b @ mlp.a, np.concatenate([np.zeros((FFN, HIDDEN), np.float32), up.b @ up.a]), atol=1e-5
    )


def test_fused_modules_are_cut_for_products_of_their_own():
    rng = np.random.default_rng(SEED)
    qkv, gate_up = pair(rng, 2, HIDDEN, (HEADS + 2 * KV_HEADS) * DIM), pair(rng, 3, HIDDEN, 2 * FFN)
    placed = place_pairs(
        adapter(**{module("self_attn__qkv_proj"): qkv, module("mlp__gate_up_proj"): gate_up}),
        linears(fused=False),
    )
    names = [f"/model/layers.0/attn/{n}_proj/MatMul" for n in "qkv"]
    got = np.concatenate([placed[n].b @ placed[n].a for n in names])
    np.testing.assert_allclose(got, qkv.b @ qkv.a, atol=1e-5, err_msg=f"seed {SEED}")
    got = np.concatenate(
        [placed[f"/model/layers.0/mlp/{n}_proj/MatMul"].b @ gate_up.a for n in ("gate", "up")]
    )
    np.testing.assert_allclose(got, gate_up.b @ gate_up.a, atol=1e-5)


def test_the_same_fused_module_is_taken_as_it_is():
    rng = np.random.default_rng(SEED)
    qkv = pair(rng, 2, HIDDEN, (HEADS + 2 * KV_HEADS) * DIM)
    placed = place_pairs(adapter(**{module("self_attn__qkv_proj"): qkv}), linears(fused=True))
    (only,) = placed.values()
    assert only.rank == 2


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (
            (2, HIDDEN + 1),
            (HIDDEN, 2),
            r"lora_A of model.layers.0.self_attn.o_proj is \[2, 11\], expected \[2, 12\]",
        ),
        (
            (2, 12),
            (HIDDEN + 1, 2),
            r"lora_B of model.layers.0.self_attn.o_proj is \[11, 2\], expected \[10, 2\]",
        ),
    ],
)
def test_sizes_that_do_not_fit_are_named(a, b, message):
    bad = LoraPair(np.zeros(a, np.float32), np.zeros(b, np.float32))
    with pytest.raises(ModelFileError, match=message):
        place_pairs(adapter(**{module("self_attn__o_proj"): bad}), linears(fused=True))


def test_modules_that_the_model_does_not_have_are_named_with_what_it_has():
    other = LoraPair(np.zeros((1, HIDDEN), np.float32), np.zeros((3, 1), np.float32))
    message = r"all: model.layers.9.self_attn.q_proj\); it has 1 layers with attn.o_proj, attn.qkv_proj"
    with pytest.raises(ModelFileError, match=message):
        place_pairs(adapter(model__layers__9__self_attn__q_proj=other), linears(fused=True))
