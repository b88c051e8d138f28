from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.ir.types import onnx_dtype

OP, MS = "GroupQueryAttention", "com.microsoft"
HEADS, KV_HEADS, DIM = 4, 2, 16
FLOAT = ir.DataType.FLOAT


class Call:
    """The inputs of one call, and what of its outputs is specified."""

    def __init__(self, totals: list[int], seq: int, *, capacity: int | None = None, dtype: Any = np.float32):
        seed = int(np.random.default_rng().integers(2**31))
        print("seed", seed)
        self.rng = np.random.default_rng(seed)
        self.dtype, self.totals, self.seq, batch = dtype, totals, seq, len(totals)
        self.given: dict[str, Any] = {
            "query": self.floats(batch, seq, HEADS * DIM),
            "key": self.floats(batch, seq, KV_HEADS * DIM),
            "value": self.floats(batch, seq, KV_HEADS * DIM),
            "seqlens_k": np.array([total - 1 for total in totals], np.int32),
            "total": np.array([max(totals)], np.int32),
        }
        self.news = [min(seq, total) for total in totals]
        self.rows = list(totals)
        if capacity is not None:
            for name in ("past_key", "past_value"):
                self.given[name] = self.floats(batch, KV_HEADS, capacity, DIM)

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(self.dtype)

    def rotated(self) -> Call:
        angles = np.arange(64)[:, None] / 10.0 ** np.arange(DIM // 2)
        self.given |= {"cos": np.cos(angles).astype(self.dtype), "sin": np.sin(angles).astype(self.dtype)}
        return self

    def chunks(self, news: list[int], total: int) -> Call:
        """Only so many rows of each query are valid; ``total`` is an upper bound of the lengths."""
        self.news = news
        self.given |= {"query_seqlens": np.array(news, np.int32), "total": np.array([total], np.int32)}
        return self

    def inputs(self) -> list[Any]:
        names = [
            "query",
            "key",
            "value",
            "past_key",
            "past_value",
            "seqlens_k",
            "total",
            "cos",
            "sin",
            "position_ids",
        ]
        names += ["attention_bias", "head_sink", "k_scale", "v_scale", "q_norm", "k_norm", "query_seqlens"]
        found = [self.given.get(name) for name in names]
        while found[-1] is None:
            found.pop()
        return found

    def check(self, *, outputs: int = 3, tolerance: float = 5e-5, **options: Any) -> None:
        """What both compute is the same where the contract specifies it."""
        cache = self.given.get("past_key", self.given["query"]).dtype
        types = [onnx_dtype(np.dtype(self.dtype)), onnx_dtype(cache), onnx_dtype(cache), FLOAT][:outputs]
        options |= {"domain": MS, "outputs": outputs, "output_types": types}
        options |= {"num_heads": HEADS, "kv_num_heads": KV_HEADS}
        got, want = (run(OP, *self.inputs(), **options) for run in (run_cpu, run_ort))
        for row, (new, kept) in enumerate(zip(self.news, self.rows, strict=True)):
            assert_same(got[0][row, :new], want[0][row, :new], rtol=tolerance, atol=tolerance)
            for cached, wanted in zip(got[1:3], want[1:3], strict=True):
                assert cached.shape == wanted.shape
                if cache.kind in "iu":  # a rounded tie may fall on either side
                    difference = cached[row, :, :kept].astype(int) - wanted[row, :, :kept].astype(int)
                    assert np.abs(difference).max() <= (1 if cache == np.int8 else 16)
                else:
                    assert_same(cached[row, :, :kept], wanted[row, :, :kept], rtol=tolerance, atol=tolerance)
            if outputs > 3:
                place = (row, slice(None), slice(new), slice(self.totals[row]))
                assert_same(got[3][place], want[3][place], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "options",
    [
        *(
            {},
            {"scale": 0.5},
            {"softcap": 2.0},
            {"local_window_size": 3},
            {"smooth_softmax": 1},
            {"causal": 0},
        ),
        *({"qk_output": 1}, {"qk_output": 2}, {"qk_output": 2, "softcap": 2.0, "smooth_softmax": 1}),
    ],
    ids=str,
)
def test_prompts_and_single_tokens(options):
    outputs = 4 if "qk_output" in options else 3
    Call([5, 5], 5).check(outputs=outputs, **options)
    Call([5, 3], 5).check(outputs=outputs, **options)
    Call([7, 4], 1, capacity=12).check(outputs=outputs, **options)
    Call([7, 7], 1, capacity=6).check(outputs=outputs, **options)


def test_a_chunk_after_a_past():
    Call([9], 3, capacity=12).check()
    Call([9], 3, capacity=6).check(local_window_size=4)


def test_packed_projections_are_the_separate_ones():
    call = Call([5, 5], 5)
    call.given["query"] = np.concatenate([call.given[name] for name in ("query", "key", "value")], axis=-1)
    call.given["key"] = call.given["value"] = None
    call.check()


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [False, True])
def test_keys_are_rotated_before_they_are_cached(interleaved, positions):
    for totals, seq, capacity in ([[5, 5], 5, None], [[7, 4], 1, 12], [[8], 3, 12]):
        call = Call(totals, seq, capacity=capacity).rotated()
        if positions:
            call.given["position_ids"] = call.rng.integers(0, 40, (len(totals), seq))
        call.check(do_rotary=1, rotary_interleaved=interleaved)


def test_sinks_and_biases():
    for totals, seq, capacity in ([[5, 5], 5, None], [[7, 4], 1, 12]):
        call = Call(totals, seq, capacity=capacity)
        call.given["head_sink"] = call.floats(HEADS)
        call.check()
        for batch, heads in ((1, 1), (2, HEADS), (2, 1)):
            call.given["attention_bias"] = call.floats(batch, heads, seq, max(totals))
            call.check(softcap=3.0)


@pytest.mark.parametrize("options", [{}, {"local_window_size": 8, "softcap": 3.0}], ids=str)
def test_prefill_decode_chunk_and_idle_in_one_call(options):
    call = Call([6, 34, 20, 15], 6, capacity=48).chunks([6, 1, 0, 4], 48).rotated()
    call.check(do_rotary=1, **options)


@pytest.mark.parametrize("capacity", [5, 8])
@pytest.mark.parametrize("total", [3, 8, 9, 20])
@pytest.mark.parametrize("seq", [1, 4])
def test_a_window_sized_cache_keeps_the_window(capacity, total, seq):
    window, call = 5, Call([total + seq], seq, capacity=capacity).rotated()
    step = capacity - window + 1
    length = call.totals[0]
    call.rows = [length if length <= capacity else length - step * -(-(length - capacity) // step)]
    call.check(sliding_window_cache=1, local_window_size=window, do_rotary=1)


@pytest.mark.parametrize(("kind", "shape"), [("PER_TENSOR", (1,)), ("PER_CHANNEL", (1, KV_HEADS, 1, DIM))])
@pytest.mark.parametrize("bits", [8, 4])
def test_caches_in_fewer_bits(kind, shape, bits):
    call = Call([7, 4], 1, capacity=12)
    low, high, dtype, width = (-100, 100, np.int8, DIM) if bits == 8 else (0, 256, np.uint8, DIM // 2)
    for name in ("past_key", "past_value"):
        call.given[name] = call.rng.integers(low, high, (2, KV_HEADS, 12, width)).astype(dtype)
    for name in ("k_scale", "v_scale"):
        call.given[name] = (call.rng.random(shape) * 0.02 + (0.02 if bits == 8 else 0.3)).astype(np.float32)
    call.check(k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits, tolerance=5e-2)


def test_half_precision():
    Call([5, 5], 5, dtype=np.float16).rotated().check(do_rotary=1, tolerance=6e-3)


def test_layers_without_new_keys_attend_to_what_is_cached():
    call = Call([7, 4], 1, capacity=12)
    for name in ("key", "value"):
        call.given[name] = call.given[name][:, :0]
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "outputs": 3}
    got, want = (run(OP, *call.inputs(), **options) for run in (run_cpu, run_ort))
    assert_same(got[0], want[0], rtol=5e-5, atol=5e-5)
    assert_same(got[1], call.given["past_key"])


def test_norms_of_heads_come_before_the_rotation():
    call = Call([5, 5], 5).rotated()
    plain = Call([5, 5], 5).rotated()
    plain.given = dict(call.given)
    call.given |= {"q_norm": call.floats(DIM), "k_norm": call.floats(DIM)}
    for name, weight, heads in (("query", "q_norm", HEADS), ("key", "k_norm", KV_HEADS)):
        x = call.given[name].reshape(2, 5, heads, DIM).astype(np.float64)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * call.given[weight]
        plain.given[name] = x.reshape(2, 5, -1).astype(np.float32)
    options = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1}
    assert_same(run_cpu(OP, *call.inputs(), **options), run_cpu(OP, *plain.inputs(), **options), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seqlens_k": np.array([20], np.int32)}, "do not fit a query of 1 rows and a cache of 8"),
        ({"seqlens_k": np.array([3, 3], np.int32)}, "for a batch of 1"),
        ({"query": np.zeros((1, 1, 30), np.float32)}, "do not fit 4 and 2 heads"),
        ({"total": np.array([1, 2], np.int32)}, "needs one element"),
    ],
)
def test_what_does_not_fit_is_an_error(change, message):
    call = Call([4], 1, capacity=8)
    call.given |= change
    node = node_spec(OP, *call.inputs(), domain=MS, num_heads=HEADS, kv_num_heads=KV_HEADS, outputs=3)
    with pytest.raises(KernelError, match=message):
        kernel_of(node).run(*call.inputs())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"causal": 0, "local_window_size": 4}, "needs causal"),
        ({"sliding_window_cache": 1}, "needs local_window_size"),
        ({"outputs": 4}, "qk_output 1 or 2"),
    ],
)
def test_attributes_that_contradict_each_other_are_errors(options, message):
    call = Call([4], 1, capacity=8)
    with pytest.raises(InvalidGraphError, match=message):
        kernel_of(node_spec(OP, *call.inputs(), domain=MS, num_heads=HEADS, kv_num_heads=KV_HEADS, **options))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    "options", [{}, {"softcap": 2.0, "smooth_softmax": 1}, {"local_window_size": 9}], ids=str
)
def test_asking_for_the_weights_changes_nothing_else(dtype, options):
    """Weights that are an output are computed step by step, all else in compiled blocks."""
    for totals, seq, capacity in (([70, 33], 70, None), ([90, 12], 1, 100), ([100], 9, 99)):
        call = Call(totals, seq, capacity=capacity, dtype=dtype).rotated()
        call.given |= {"cos": np.tile(call.given["cos"], (2, 1)), "sin": np.tile(call.given["sin"], (2, 1))}
        call.given |= {"q_norm": call.floats(DIM), "k_norm": call.floats(DIM)}
        shared = {"domain": MS, "num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1, **options}
        blocks = run_cpu(OP, *call.inputs(), outputs=3, **shared)
        steps = run_cpu(OP, *call.inputs(), outputs=4, qk_output=2, **shared)
        tolerance = 1e-5 if dtype == np.float32 else 2e-3 if dtype == np.float16 else 2e-2
        assert_same(blocks, steps[:3], rtol=tolerance, atol=tolerance)
