"""Attention, norms and recurrences of the native runtime against ONNX Runtime, in the same run.

    python benchmarks/bench_attention_ops.py [--only REGEX] [--threads 2] [--rounds 9] [--json FILE]

Each case is a model of one node with its inputs and outputs bound to memory in both; caches are one buffer in and out where
the operator allows it. Contestants take turns in short bursts with a rest after each. Prints the median over the rounds of
each burst's median, their ratio (ours / theirs), and the ratio of the shortest times, which a loaded machine disturbs least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from bench_cpu_kernels import print_table, take_turns
from onnx import helper

from onnxgen.graph.session import InferenceSession

MICROSOFT = "com.microsoft"
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A node: its inputs (None where left out), how many outputs it has, and which of them are an input's memory."""

    op_type: str
    label: str
    inputs: tuple[Any, ...]
    outputs: int = 1
    shared: dict[int, int] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    domain: str = MICROSOFT
    opset: int = 1
    tolerance: float = 2e-3


def floats(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype(dtype)


def tables(positions: int, half: int) -> tuple[np.ndarray, np.ndarray]:
    angles = np.arange(positions)[:, None] / 10000.0 ** (np.arange(half) / half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def grouped(
    name: str, heads: int, kv_heads: int, dim: int, seq: int, total: int, dtype: Any = np.float32
) -> Case:
    capacity, int8 = max(total, 1024), dtype == np.int8
    past = [
        RNG.integers(-100, 100, (1, kv_heads, capacity, dim)).astype(dtype)
        if int8
        else floats(1, kv_heads, capacity, dim, dtype=dtype)
        for _ in range(2)
    ]
    kind = np.float32 if int8 else dtype
    heads_of = [floats(1, seq, count * dim, dtype=kind) for count in (heads, kv_heads, kv_heads)]
    lengths = (np.array([total - 1], np.int32), np.array([total], np.int32))
    rotary = [table.astype(kind) for table in tables(4096, dim // 2)]
    inputs: list[Any] = [*heads_of, *past, *lengths, *rotary]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "do_rotary": 1}
    if int8:
        inputs += [None, None, None, *[np.array([0.02], np.float32)] * 2]
        attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": 8}
    return Case("GroupQueryAttention", name, tuple(inputs), 3, {1: 3, 2: 4}, attributes, tolerance=3e-2)


def cases() -> Iterator[Case]:
    for shape in ((9, 3, 64), (14, 2, 64), (32, 8, 128)):
        sizes = "{} of {} heads x {}".format(*shape)
        yield grouped(f"decode @1024, {sizes}", *shape, 1, 1024)
        yield grouped(f"prefill 512, {sizes}", *shape, 512, 512)
    yield grouped("decode @1024, int8, 14 of 2 heads x 64", 14, 2, 64, 1, 1024, np.int8)
    yield grouped("prefill 512, float16, 14 of 2 heads x 64", 14, 2, 64, 512, 512, np.float16)
    yield grouped("chunk of 64 @1024, 14 of 2 heads x 64", 14, 2, 64, 64, 1024)
    standard = {"domain": "", "opset": 23}
    for seq, past in ((1, 1023), (512, 0)):
        q, k, v = floats(1, 14, seq, 64), floats(1, 2, seq, 64), floats(1, 2, seq, 64)
        if past:
            inputs: tuple[Any, ...] = (q, k, v, None, floats(1, 2, past, 64), floats(1, 2, past, 64))
            yield Case("Attention", f"{seq} @{past + seq}, 14 of 2 x 64", inputs, 3, {}, {}, **standard)
        else:
            yield Case(
                "Attention", f"causal {seq}, 14 of 2 x 64", (q, k, v), 1, {}, {"is_causal": 1}, **standard
            )
    mask = np.tril(np.ones((256, 256), bool))
    yield Case(
        "Attention", "masked 256, 12 x 64", (*(floats(1, 12, 256, 64) for _ in range(3)), mask), **standard
    )
    for seq in (128, 512):
        inputs = tuple(floats(1, seq, 768) for _ in range(3))
        yield Case("MultiHeadAttention", f"{seq}, 12 x 64", inputs, 1, {}, {"num_heads": 12})
    for rows, width in ((1, 896), (512, 896), (128, 384)):
        x, skip, gamma, beta = floats(1, rows, width), floats(1, rows, width), floats(width), floats(width)
        sizes = f"{rows} x {width}"
        yield Case("SimplifiedLayerNormalization", sizes, (x, gamma), domain="", opset=20)
        yield Case("RMSNormalization", sizes, (x, gamma), domain="", opset=23)
        yield Case("LayerNormalization", sizes, (x, gamma, beta), domain="", opset=20)
        yield Case("SkipSimplifiedLayerNormalization", f"{sizes}, sum too", (x, skip, gamma), 4)
        yield Case("SkipLayerNormalization", sizes, (x, skip, gamma, beta))
    cos, sin = tables(4096, 32)
    for seq in (1, 512):
        positions = np.arange(seq)[None]
        yield Case(
            "RotaryEmbedding",
            f"{seq}, 14 x 64",
            (floats(1, seq, 896), positions, cos, sin),
            attributes={"num_heads": 14},
        )
        yield Case(
            "RotaryEmbedding",
            f"standard, {seq}, 14 x 64",
            (floats(1, 14, seq, 64), cos, sin, positions),
            domain="",
            opset=23,
        )
    for seq in (1, 512):
        x, weight, bias, state = floats(1, 2048, seq), floats(2048, 1, 4), floats(2048), floats(1, 2048, 3)
        yield Case(
            "CausalConvWithState",
            f"{seq}, 2048 channels, 4 taps",
            (x, weight, bias, state),
            2,
            {},
            {"activation": "silu"},
        )
    for seq in (1, 256):
        heads, dim = 8, 128
        key = floats(1, seq, heads, dim)
        key /= np.linalg.norm(key, axis=-1, keepdims=True)
        inputs = (
            floats(1, seq, heads * dim),
            key.reshape(1, seq, -1),
            floats(1, seq, heads * dim),
            floats(1, heads, dim, dim),
            -np.abs(floats(1, seq, heads)),
            np.abs(floats(1, seq, heads)),
        )
        numbers = {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "gated_delta"}
        yield Case("LinearAttention", f"gated delta, {seq}, {heads} x {dim} x {dim}", inputs, 2, {}, numbers)


def model_of(case: Case, results: list[np.ndarray] | None = None) -> bytes:
    """The model; with results, their types are declared, as those of a model with fixed sizes are."""
    names = ["" if array is None else f"x{index}" for index, array in enumerate(case.inputs)]
    outputs = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op_type, names, outputs, domain=case.domain, **case.attributes)
    graph = helper.make_graph(
        [node],
        case.op_type,
        [
            helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, x in enumerate(case.inputs)
            if x is not None
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs]
        if results is None
        else [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
            for name, y in zip(outputs, results, strict=True)
        ],
    )
    imports = [helper.make_opsetid("", 20 if case.domain else case.opset)]
    imports += [helper.make_opsetid(case.domain, case.opset)] if case.domain else []
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def bound(session: Any, case: Case, shapes: list[np.ndarray]) -> tuple[Callable[[], None], list[np.ndarray]]:
    """A call that runs the session in memory of its own, and the outputs that it fills."""
    inputs = [None if x is None else x.copy() for x in case.inputs]
    outputs = [inputs[case.shared[i]] if i in case.shared else np.empty_like(y) for i, y in enumerate(shapes)]
    binding = session.io_binding()
    for i, x in enumerate(inputs):
        if x is not None:
            binding.bind_input(f"x{i}", "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    for i, y in enumerate(outputs):
        binding.bind_output(f"y{i}", "cpu", 0, y.dtype, y.shape, y.ctypes.data)
    keep = (inputs, outputs)
    return lambda: (session.run_with_iobinding(binding), keep)[0], outputs


def measure(case: Case, *, threads: int, rounds: int) -> dict[str, float]:
    settings = ort.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.log_severity_level = 4
    theirs = ort.InferenceSession(model_of(case), settings, providers=["CPUExecutionProvider"])
    shapes = theirs.run(None, {f"x{i}": x for i, x in enumerate(case.inputs) if x is not None})
    ours = InferenceSession(model_of(case, shapes))
    (our_call, got), (their_call, want) = (bound(session, case, shapes) for session in (ours, theirs))
    for _ in range(3):
        our_call()
        their_call()
    np.testing.assert_allclose(
        got[0].astype(np.float32), want[0].astype(np.float32), rtol=case.tolerance, atol=case.tolerance
    )
    return take_turns(our_call, their_call, rounds=rounds)


if __name__ == "__main__":
    print_table(__doc__, cases(), measure, rounds=9)
