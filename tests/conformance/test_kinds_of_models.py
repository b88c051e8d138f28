"""Small models of kinds that exporters write, at both ends of optimization, again and again on inputs of other sizes.

Each is what a real model does in one corner: recurrent layers inside branches and loops, sequence lengths, ranks and shapes
that only a run knows, values that are no tensors, and the operators of old opsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from graph_models import model
from kernel_runs import assert_same, fresh_rng
from onnxgen import InferenceSession, SessionOptions

LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")
RNG = np.random.default_rng(20)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A model as text, its initializers, and feeds: a tuple is the shape of random floats, the rest is given."""

    graph: str
    feeds: Sequence[Mapping[str, Any]]
    constants: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 17
    domains: str = ""


def recurrent(gates: int, directions: int = 1) -> dict[str, np.ndarray]:
    """Weights of 3 features and 4 hidden units."""
    return {
        "w": weights(directions, gates * 4, 3),
        "r": weights(directions, gates * 4, 4),
        "b": weights(directions, gates * 8),
    }


def lengths(*several: Sequence[int]) -> list[dict[str, Any]]:
    return [{"x": (6, len(one), 3), "l": np.array(one, np.int32)} for one in several]


LENGTHS = lengths([6, 3, 1], [2, 2, 2], [1, 6])
ML, MS = ', "ai.onnx.ml" : 3', ', "com.microsoft" : 1'

CASES = {
    "lstm in a branch": Case(
        """g (float[S,N,3] x, bool c) => (y) { y = If (c) <
        then_branch = t () => (float[S,1,N,4] yt) { yt, h1, c1 = LSTM<hidden_size=4>(x, w, r, b) },
        else_branch = e () => (float[S,1,N,4] ye) { ye, h2, c2 = LSTM<hidden_size=4, direction="reverse">(x, w, r, b) }> }""",
        [{"x": (s, n, 3), "c": np.array(c)} for s, n, c in ((5, 2, True), (5, 2, False), (7, 1, True))],
        recurrent(4),
    ),
    "gru in a loop": Case(
        """g (int64 n, float[S,N,3] x, float[1,N,4] h0) => (float[1,N,4] hn, float[K,1,N,4] all) {
        t = Constant<value = bool {1}>()
        hn, all = Loop (n, t, h0) <body = lb (int64 i, bool c, float[1,N,4] h) => (bool c2, float[1,N,4] h2, float[1,N,4] out)
        { y, h2 = GRU<hidden_size=4, linear_before_reset=1>(x, w, r, b, , h) c2 = Identity(c) out = Identity(h2) }> }""",
        [{"n": np.array(k), "x": (s, n, 3), "h0": (1, n, 4)} for k, s, n in ((3, 4, 2), (1, 4, 2), (5, 2, 1))],
        recurrent(3),
    ),
    "lstm with lengths": Case(
        "g (float[S,N,3] x, int32[N] l) => (y, h, c) { y, h, c = LSTM<hidden_size=4>(x, w, r, b, l) }",
        LENGTHS, recurrent(4),
    ),
    "gru of both directions with lengths": Case(
        'g (float[S,N,3] x, int32[N] l) => (y, h) { y, h = GRU<hidden_size=4, direction="bidirectional">(x, w, r, b, l) }',
        LENGTHS, recurrent(3, 2),
    ),
    "shapes that depend on values": Case(
        """g (float[A,B] x) => (i, z, r) { i = NonZero(x) t = Transpose(i) z = GatherND(x, t) s = Shape(z)
        n = Squeeze(s) zero = Constant<value = int64 {0}>() one = Constant<value = int64 {1}>() r = Range(zero, n, one) }""",
        [{"x": np.float32([[0, 1, 2], [3, 0, 0]])}, {"x": np.zeros((2, 3), np.float32)}, {"x": (3, 5)}],
    ),
    "a reshape by an input": Case(
        "g (float[N] x, int64[K] s) => (y, e) { y = Reshape(x, s) n = Shape(y) e = Expand(y, n) }",
        [{"x": (12,), "s": np.array(s)} for s in ([3, 4], [2, -1, 2], [-1])],
    ),
    "a rank that depends on a branch": Case(
        """g (bool c, float[N] x) => (y, z) { y = If (c) <then_branch = t () => (float[N] a) { a = Neg(x) },
        else_branch = e () => (float[M,K] u) { u = Unsqueeze(x, axes) }> q = Add(y, y) z = ReduceSum(q) }""",
        [{"c": np.array(c), "x": (n,)} for c, n in ((True, 3), (False, 3), (False, 5))],
        {"axes": np.array([0])},
    ),
    "a symbol for two sizes": Case(
        "g (float[N,N] x, float[N] z) => (float[N,N] y, float[N] v) { y = Relu(x) v = Neg(z) }",
        [{"x": (2, 3), "z": (7,)}, {"x": (4, 4), "z": (4,)}],
    ),
    "a branch inside a loop": Case(
        """g (int64 n, float[N] x) => (y) { t = Constant<value = bool {1}>()
        y = Loop(n, t, x) <body = b (int64 i, bool c, float[M] s) => (bool c2, float[M] s2) {
            two = Constant<value = int64 {2}>() m = Mod(i, two) even = Cast<to=9>(m)
            s2 = If (even) <then_branch = tb () => (float[M] a) { a = Concat<axis=0>(s, x) },
                else_branch = eb () => (float[M] d) { k = Shape(s) f = Cast<to=1>(k) d = Add(s, f) }> c2 = Identity(c) }> }""",
        [{"n": np.array(n), "x": (k,)} for n, k in ((3, 2), (4, 1), (0, 2))],
    ),
    "a loop until a condition": Case(
        """g (float x) => (y, k) { i0 = Constant<value = int64 {0}>() t = Constant<value = bool {1}>()
        end = Constant<value = float {100.0}>()
        y, k = Loop(, t, x, i0) <body = b (int64 i, bool c, float v, int64 n) => (bool c2, float v2, int64 n2)
        { v2 = Add(v, v) one = Constant<value = int64 {1}>() n2 = Add(n, one) c2 = Less(v2, end) }> }""",
        [{"x": np.array(x, np.float32)} for x in (1, 90, 200)],
    ),
    "a scan of opset 8": Case(
        """g (float[B,S,N] x, float[B,N] h) => (float[B,N] hy, float[B,S,N] y) { hy, y = Scan<num_scan_inputs=1,
        body = b (float[N] h0, float[N] xi) => (float[N] h1, float[N] o) { h1 = Add(h0, xi) o = Mul(h1, h1) }>(, h, x) }""",
        [{"x": (2, 3, 4), "h": (2, 4)}, {"x": (1, 5, 4), "h": (1, 4)}], opset=8,
    ),
    "a scan from the end": Case(
        """g (float[S,N] x, float[N] h) => (hy, y) { hy, y = Scan<num_scan_inputs=1, scan_input_directions=[1],
        scan_output_directions=[1], scan_output_axes=[1],
        body = b (float[N] h0, float[N] xi) => (float[N] h1, float[N] o) { h1 = Add(h0, xi) o = Mul(h1, h1) }>(h, x) }""",
        [{"x": (3, 4), "h": (4,)}, {"x": (5, 4), "h": (4,)}], opset=11,
    ),
    "a sequence as output": Case(
        "g (float[N,M] x) => (seq(float[K]) s, int64 n) { s = SplitToSequence<axis=0, keepdims=0>(x) n = SequenceLength(s) }",
        [{"x": (3, 2)}, {"x": (1, 4)}],
    ),
    "a sequence that a loop fills": Case(
        """g (int64 n, float[2] x) => (float[M] y, seq(float[2]) out) { t = Constant<value = bool {1}>() e = SequenceEmpty()
        out = Loop(n, t, e) <body = b (int64 i, bool c, seq(float[2]) s) => (bool c2, seq(float[2]) s2)
        { f = Cast<to=1>(i) v = Mul(x, f) s2 = SequenceInsert(s, v) c2 = Identity(c) }> y = ConcatFromSequence<axis=0>(out) }""",
        [{"n": np.array(3), "x": (2,)}, {"n": np.array(1), "x": (2,)}],
    ),
    "an optional": Case(
        """g (float[N] x) => (y) { o = Optional(x) h = OptionalHasElement(o) v = OptionalGetElement(o) f = Cast<to=1>(h)
        y = Mul(v, f) }""",
        [{"x": (3,)}], opset=18,
    ),
    "words": Case(
        """g (string[N] x, string[N] z) => (y, u, c) { y = StringConcat(x, z) u = RegexFullMatch<pattern="a.*">(x)
        c, k = StringSplit<delimiter=" ">(x) }""",
        [{"x": np.array(["a b", "cc"], object), "z": np.array(["1", "é"], object)}], opset=20,
    ),
    "dictionaries of a classifier": Case(
        """g (float[N,3] x) => (l, p) { l, s = ai.onnx.ml.LinearClassifier<classlabels_strings=["a","b"], multi_class=1,
        coefficients=[0.1,0.2,-0.3,0.4,-0.5,0.6], intercepts=[0.0,0.1], post_transform="SOFTMAX">(x)
        p = ai.onnx.ml.ZipMap<classlabels_strings=["a","b"]>(s) }""",
        [{"x": (4, 3)}, {"x": (1, 3)}], domains=ML,
    ),
    "words to numbers": Case(
        """g (string[N] x) => (d, e) { e = ai.onnx.ml.OneHotEncoder<cats_strings=["a","b"], zeros=1>(x)
        d = ai.onnx.ml.LabelEncoder<keys_strings=["a","b"], values_int64s=[5,6], default_int64=-1>(x) }""",
        [{"x": np.array(["a", "b", "q"], object)}], domains=ML,
    ),
    "float16 layers": Case(
        """g (float16[N,4] x) => (y, s) { a = MatMul(x, w) c = Relu(a) s = Softmax<axis=-1>(c)
        d = LayerNormalization(c, k, k) y = Gelu<approximate="tanh">(d) }""",
        [{"x": np.float16([[1, -0.5, 2, 0.25]] * n)} for n in (3, 1)],
        {"w": weights(4, 5).astype(np.float16), "k": weights(5).astype(np.float16)}, opset=20,
    ),
    "norms before the standard has them": Case(
        "g (float[N,4] x) => (y, z) { y = LayerNormalization(x, k, k) z = SimplifiedLayerNormalization(x, k) }",
        [{"x": (3, 4)}, {"x": (1, 4)}], {"k": weights(4)}, opset=13,
    ),
    "batch norm, dropout and upsampling of opset 7": Case(
        """g (float[N,3,H,W] x) => (y, d) { y = BatchNormalization<epsilon=0.001>(x, k, k, k, v) e = Dropout<ratio=0.3>(y)
        d = Upsample<mode="nearest", scales=[1.0,1.0,2.0,2.0]>(e) }""",
        [{"x": (2, 3, 4, 4)}, {"x": (1, 3, 2, 5)}], {"k": weights(3), "v": np.abs(weights(3)) + 1}, opset=7,
    ),
    "slices, gathers and flat softmax of opset 7": Case(
        """g (float[A,B,C] x) => (y, z, s) { p = Slice<axes=[1], starts=[-2], ends=[9223372036854775807]>(x)
        y = Transpose(p) z = Gather<axis=1>(x, i) s = Softmax(x) }""",
        [{"x": (3, 4, 5)}, {"x": (1, 2, 3)}], {"i": np.array([[0, 1], [1, 0]])}, opset=7,
    ),
    "resizing of opset 10": Case(
        'g (float[N,3,H,W] x) => (y) { y = Resize<mode="linear">(x, s) }',
        [{"x": (1, 3, 4, 4)}, {"x": (1, 3, 3, 6)}], {"s": np.float32([1, 1, 1.5, 2])}, opset=10,
    ),
    "an input with a default": Case(
        "g (float[N] x, float[1] k) => (y) { y = Mul(x, k) }",
        [{"x": (3,)}, {"x": (3,), "k": (1,)}, {"x": (2,)}], {"k": weights(1)},
    ),
    "rows that are none": Case(
        "g (float[N,3] x) => (y, m, s) { y = Concat<axis=0>(x, x) m = ReduceSum(x, axes) s = Softmax(x) }",
        [{"x": (0, 3)}, {"x": (2, 3)}], {"axes": np.array([1])},
    ),
    "fused products and activations": Case(
        """g (float[B,M,K] x, float[B,N,K] z) => (y, q, f) { y = com.microsoft.FusedMatMul<alpha=0.125, transB=1>(x, z)
        q = com.microsoft.QuickGelu<alpha=1.5>(y) f = com.microsoft.FastGelu(q) }""",
        [{"x": (2, 3, 4), "z": (2, 5, 4)}, {"x": (1, 2, 4), "z": (1, 2, 4)}], domains=MS,
    ),
    "a convolution that adds and activates": Case(
        """g (float[N,3,H,W] x, float[N,4,H,W] z) => (y) {
        y = com.microsoft.FusedConv<activation="Relu", kernel_shape=[1,1]>(x, w, b, z) }""",
        [{"x": (1, 3, 5, 5), "z": (1, 4, 5, 5)}, {"x": (2, 3, 4, 4), "z": (2, 4, 4, 4)}],
        {"w": weights(4, 3, 1, 1), "b": weights(4)}, domains=MS,
    ),
    "attention with a mask": Case(
        "g (float[B,S,8] x, int32[B,S] m) => (y) { y = com.microsoft.Attention<num_heads=2>(x, w, b, m) }",
        [{"x": (2, 3, 8), "m": np.array([[1, 1, 1], [1, 1, 0]], np.int32)},
         {"x": (1, 2, 8), "m": np.array([[1, 1]], np.int32)}],
        {"w": weights(8, 24), "b": weights(24)}, domains=MS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("level", LEVELS)
def test_each_gives_what_onnx_runtime_gives(kind, level):
    case = CASES[kind]
    made = model(case.graph, ir=9 if case.opset > 18 else 8, opset=case.opset, domains=case.domains)
    for name, value in case.constants.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    content = made.SerializeToString()
    options = SessionOptions()
    options.graph_optimization_level = getattr(type(options.graph_optimization_level), level)
    ours, theirs = InferenceSession(content, options), _onnx_runtime(content)
    half = "float16" in case.graph
    rng = fresh_rng()
    for _ in range(3):  # the first run of a shape, a prepared one, one after others
        for feed in case.feeds:
            given = {name: _filled(value, rng) for name, value in feed.items()}
            found, expected = ours.run(None, given), theirs.run(None, given)
            for one, other in zip(found, expected, strict=True):
                _assert_same(one, other, tolerance=1e-2 if half else 1e-4)


def _onnx_runtime(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _filled(value: Any, rng: np.random.Generator) -> Any:
    return rng.standard_normal(value).astype(np.float32) if isinstance(value, tuple) else value


def _assert_same(found: Any, expected: Any, *, tolerance: float) -> None:
    if isinstance(expected, dict):
        assert found == pytest.approx(expected, rel=tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _assert_same(one, other, tolerance=tolerance)
    else:
        assert_same(found, expected, rtol=tolerance, atol=tolerance)
