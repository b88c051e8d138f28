from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.paged_call import INPUTS, PagedCall
from onnxgen.graph.cpu.paged_steps import attend_in_steps
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.provider import Decline

MS = "com.microsoft"
HEADS, KV_HEADS, DIM, BLOCK, BLOCKS = 4, 2, 16, 4, 16


class Batch:
    """Sequences of ``pasts`` cached and ``news`` new tokens, over shuffled pages; also as slots for GroupQueryAttention."""

    def __init__(self, pasts, news):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng, self.pasts, self.news = np.random.default_rng(seed), pasts, news
        tokens = sum(news)
        self.query = self.floats(tokens, HEADS * DIM)
        self.key, self.value = (self.floats(tokens, KV_HEADS * DIM) for _ in range(2))
        self.caches = [self.floats(BLOCKS, BLOCK, KV_HEADS, DIM) for _ in range(2)]
        self.bounds = np.concatenate([[0], np.cumsum(news)]).astype(np.int32)
        pages = iter(self.rng.permutation(BLOCKS).tolist())
        needed = [-(-(past + new) // BLOCK) for past, new in zip(pasts, news, strict=True)]
        self.table = np.full((len(pasts), max(needed)), -1, np.int32)
        for row, count in enumerate(needed):
            self.table[row, :count] = [next(pages) for _ in range(count)]
        angles = np.arange(64)[:, None] / 10.0 ** np.arange(DIM // 2)
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def floats(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def rows(self, cache, row, length):
        """The first rows of a sequence's cache, out of its pages."""
        return cache[self.table[row]].reshape(-1, *cache.shape[2:])[:length]

    def inputs(self, *more):
        first = [self.query, self.key, self.value, *self.caches, self.bounds, np.array(self.pasts, np.int32)]
        return [*first, self.table, self.cos, self.sin, *more]

    def check_against_slots(self, *more, sink=None, rotates=True, **options):
        """Every sequence gives what GroupQueryAttention gives for it alone."""
        options |= {
            "domain": MS,
            "num_heads": HEADS,
            "kv_num_heads": KV_HEADS,
            "outputs": 3,
            "do_rotary": int(rotates),
        }
        output, *caches = run_cpu("PagedAttention", *self.inputs(*more), **options)
        for row, (past, new) in enumerate(zip(self.pasts, self.news, strict=True)):
            span = slice(self.bounds[row], self.bounds[row + 1])
            old = [self.rows(cache, row, past).swapaxes(0, 1)[None] for cache in self.caches]
            lengths = np.array([past + new - 1], np.int32), np.array([past + new], np.int32)
            inputs = [x[span][None] for x in (self.query, self.key, self.value)]
            want = run_cpu(
                "GroupQueryAttention",
                *inputs,
                *old,
                *lengths,
                self.cos,
                self.sin,
                None,
                None,
                sink,
                **options,
            )
            assert_same(output[span], want[0][0], atol=1e-5)
            for cache, present in zip(caches, want[1:], strict=True):
                assert_same(self.rows(cache, row, past + new), present[0].swapaxes(0, 1), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"softcap": 3.0}, {"local_window_size": 3}, {"scale": 0.5}], ids=str)
def test_prefill_decode_and_chunk_in_one_call(options):
    Batch([0, 9, 5, 0], [6, 1, 4, 1]).check_against_slots(**options)


def test_sinks_and_plain_positions():
    batch = Batch([0, 9], [3, 2])
    sink = batch.floats(HEADS)
    batch.check_against_slots(None, sink, sink=sink)
    batch.check_against_slots(rotates=False)


def test_packed_projections_are_the_separate_ones():
    batch = Batch([0, 9], [3, 2])
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": 3}
    want = run_cpu("PagedAttention", *batch.inputs(), **options)
    batch.query = np.concatenate([batch.query, batch.key, batch.value], axis=1)
    batch.key = batch.value = None
    assert_same(list(run_cpu("PagedAttention", *batch.inputs(), **options)), list(want))


def test_a_token_without_slot_is_not_stored():
    batch = Batch([4], [2])
    slots = np.array([-1, batch.table[0, 1] * BLOCK + 1], np.int32)
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": 3}
    _, keys, _ = run_cpu("PagedAttention", *batch.inputs(slots), **options)
    assert_same(batch.rows(keys, 0, 5), batch.rows(batch.caches[0], 0, 5))
    assert_same(batch.rows(keys, 0, 6)[5].reshape(-1), batch.key[1])


def test_queries_that_see_each_other():
    batch = Batch([3], [4])
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": 3, "is_causal": 0}
    output, keys, values = run_cpu("PagedAttention", *batch.inputs(), **options)
    k, v = (np.repeat(batch.rows(cache, 0, 7), 2, axis=1).astype(np.float64) for cache in (keys, values))
    q = batch.query.reshape(4, HEADS, DIM)
    weights = np.exp(np.einsum("qhd,khd->hqk", q, k) / 4)
    want = np.einsum("hqk,khd->qhd", weights / weights.sum(-1, keepdims=True), v)
    assert_same(output, want.reshape(4, -1).astype(np.float32), atol=1e-5)


def test_latent_caches_hold_the_values_in_the_keys():
    batch = Batch([3, 0], [2, 3])
    query, key = batch.query, batch.floats(5, DIM)
    cache = batch.floats(BLOCKS, BLOCK, 1, DIM)
    inputs = [query, key, None, cache, None, batch.bounds, np.array(batch.pasts, np.int32), batch.table]
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": 1}
    got = run_cpu(
        "PagedAttention", *inputs, outputs=2, kv_cache_layout="LATENT", v_head_size=8, scale=0.25, **options
    )
    inputs[2], inputs[4] = key, cache
    want = run_cpu("PagedAttention", *inputs, outputs=3, scale=0.25, **options)
    assert got[0].shape == (5, HEADS * 8)
    assert_same(got[0].reshape(5, HEADS, 8), want[0].reshape(5, HEADS, DIM)[..., :8])
    assert_same(got[1], want[1])


@pytest.mark.parametrize("kind", ["int8", "int4", "float8"])
@pytest.mark.parametrize("by_channel", [False, True])
def test_caches_in_fewer_bits_are_those_of_the_rounded_keys_and_values(kind, by_channel):
    batch = Batch([0, 0], [6, 3])
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": 3}
    scale = batch.rng.random((KV_HEADS, 1, DIM) if by_channel else 1).astype(np.float32) * 0.02 + 0.02
    scale = scale * (1 if kind == "int8" else 10)
    exact, factor = (batch.key, batch.value), scale.reshape(-1)

    def rounded(x):
        if kind == "float8":
            return (x / factor).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * factor
        bound = 128 if kind == "int8" else 8
        return np.clip(np.rint(x / factor), -bound, bound - 1) * factor

    batch.key, batch.value = (rounded(x).astype(np.float32) for x in exact)
    want = run_cpu("PagedAttention", *batch.inputs(), **options)[0]
    batch.key, batch.value = exact
    dtype = {"int8": np.int8, "int4": np.uint8, "float8": ml_dtypes.float8_e4m3fn}[kind]
    width = DIM // 2 if kind == "int4" else DIM
    batch.caches = [np.zeros((BLOCKS, BLOCK, KV_HEADS, width), dtype) for _ in range(2)]
    options |= dict.fromkeys(("k_quant_type", "v_quant_type"), "PER_CHANNEL" if by_channel else "PER_TENSOR")
    if kind == "int4":
        options |= dict.fromkeys(("k_cache_dtype", "v_cache_dtype"), "int4")
    got = run_cpu("PagedAttention", *batch.inputs(None, None, None, None, scale, scale), **options)[0]
    assert_same(got, want, rtol=1e-4, atol=1e-4)


def test_what_does_not_fit_is_an_error_or_declined():
    batch = Batch([0], [2])
    batch.query = batch.query[:, :30]
    node = node_spec("PagedAttention", *batch.inputs(), domain=MS, num_heads=HEADS, kv_num_heads=KV_HEADS)
    with pytest.raises(KernelError, match="do not fit 4 and 2 heads"):
        kernel_of(node).run(*batch.inputs())
    exotic = node_spec("PagedAttention", domain=MS, k_cache_dtype="float4e2m1")
    assert isinstance(CpuProvider().claim(exotic), Decline)


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_blocks_give_what_steps_give(kind, interleaved):
    batch = Batch([0, 9, 17], [13, 1, 5])
    options = {
        "num_heads": HEADS,
        "kv_num_heads": KV_HEADS,
        "do_rotary": 1,
        "rotary_interleaved": interleaved,
    }
    options |= {"local_window_size": 11, "softcap": 4.0, "rotary_offset": 4}
    batch.cos, batch.sin = batch.cos[:, :5].copy(), batch.sin[:, :5].copy()
    more = [None, batch.floats(HEADS), batch.floats(DIM), batch.floats(DIM)]
    if kind == np.int8:
        options |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_CHANNEL"}
        more += [
            np.array([0.02], np.float32),
            batch.rng.random((1, KV_HEADS, 1, DIM)).astype(np.float32) * 0.02,
        ]
        batch.caches = [(cache * 40).astype(np.int8) for cache in batch.caches]
    else:
        batch.caches = [cache.astype(kind) for cache in batch.caches]
    inputs = batch.inputs(*more)
    output, *caches = run_cpu("PagedAttention", *inputs, domain=MS, outputs=3, **options)
    given = dict(zip(INPUTS, [*inputs, *[None] * (len(INPUTS) - len(inputs))], strict=True))
    stepped = [cache.copy() for cache in batch.caches]
    node = node_spec("PagedAttention", *inputs, domain=MS, outputs=3, **options)
    want = attend_in_steps(PagedCall(node, given), *stepped).reshape(output.shape)
    tolerance = {np.float32: 1e-5, np.float16: 2e-3, np.int8: 2e-2}.get(kind, 2e-2)
    assert_same(output, want, rtol=tolerance, atol=tolerance)
    for cache, other in zip(caches, stepped, strict=True):
        difference = np.abs(cache.astype(np.float32) - other.astype(np.float32))
        assert difference.max() <= (1 if kind == np.int8 else tolerance * 4)


def test_unused_entries_of_block_tables_may_be_anything():
    batch = Batch([0, 9], [3, 2])
    want = run_cpu(
        "PagedAttention", *batch.inputs(), domain=MS, num_heads=HEADS, kv_num_heads=KV_HEADS, outputs=3
    )
    batch.table[batch.table < 0] = 10**6
    got = run_cpu(
        "PagedAttention", *batch.inputs(), domain=MS, num_heads=HEADS, kv_num_heads=KV_HEADS, outputs=3
    )
    assert_same(list(got), list(want))
