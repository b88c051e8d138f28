"""Tiny random decoders as ONNX graphs in several styles, and the same arithmetic in numpy as their oracle."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxgen.backends.base import DecoderModel

MS = "com.microsoft"
FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
INT32, INT64 = TensorProto.INT32, TensorProto.INT64


@dataclass(frozen=True)
class Sizes:
    vocab: int = 61
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16  # what ONNX Runtime asks for at least
    ffn: int = 48
    layers: int = 2
    context: int = 40
    conv: int = 3  # length of the state of convolution layers
    conv_layers: tuple[int, ...] = ()
    soft_cap: float = 0.0
    rope_switch: int | None = None


@dataclass
class TinyDecoder:
    """Weights, a numpy forward pass, and a builder of graphs."""

    sizes: Sizes
    seed: int
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self):
        rng, s = np.random.default_rng(self.seed), self.sizes

        def make(name, *shape, scale=1.0):
            self.weights[name] = (rng.standard_normal(shape) * scale).astype(np.float32)

        make("embed", s.vocab, s.hidden)
        for i in range(s.layers):
            self.weights[f"{i}.norm1"] = rng.uniform(0.5, 1.5, s.hidden).astype(np.float32)
            self.weights[f"{i}.norm2"] = rng.uniform(0.5, 1.5, s.hidden).astype(np.float32)
            if i in s.conv_layers:
                make(f"{i}.conv", s.hidden, 1, s.conv, scale=0.5)
            else:
                make(f"{i}.q", s.hidden, s.heads * s.head_dim, scale=0.3)
                make(f"{i}.k", s.hidden, s.kv_heads * s.head_dim, scale=0.3)
                make(f"{i}.v", s.hidden, s.kv_heads * s.head_dim, scale=0.3)
                make(f"{i}.o", s.heads * s.head_dim, s.hidden, scale=0.2)
            make(f"{i}.gate", s.hidden, s.ffn, scale=0.2)
            make(f"{i}.up", s.hidden, s.ffn, scale=0.2)
            make(f"{i}.down", s.ffn, s.hidden, scale=0.2)
        self.weights["norm"] = rng.uniform(0.5, 1.5, s.hidden).astype(np.float32)
        make("head", s.hidden, s.vocab, scale=0.3)

    def rope(self, long):
        half = self.sizes.head_dim // 2
        inv = (50.0 if long else 100.0) ** -(np.arange(half) / half)
        angles = np.outer(np.arange(self.sizes.context), inv)
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def logits(self, tokens):
        """float64 ``[tokens, vocab]`` after each of the tokens."""
        return self.hidden(tokens, head=True)

    def hidden(self, tokens, *, head=False):
        w, s = {k: v.astype(np.float64) for k, v in self.weights.items()}, self.sizes
        n = len(tokens)
        long = s.rope_switch is not None and n > s.rope_switch
        cos, sin = (t.astype(np.float64)[:n, None] for t in self.rope(long))

        def norm(x, g):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

        def rotate(x):
            a, b = np.split(x, 2, axis=-1)
            return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

        x = w["embed"][np.asarray(tokens)]
        for i in range(s.layers):
            y = norm(x, w[f"{i}.norm1"])
            if i in s.conv_layers:
                padded = np.concatenate([np.zeros((s.conv - 1, s.hidden)), y])
                x = x + sum(padded[j : j + n] * w[f"{i}.conv"][:, 0, j] for j in range(s.conv))
            else:
                q = rotate((y @ w[f"{i}.q"]).reshape(n, s.heads, s.head_dim))
                k = rotate((y @ w[f"{i}.k"]).reshape(n, s.kv_heads, s.head_dim))
                v = (y @ w[f"{i}.v"]).reshape(n, s.kv_heads, s.head_dim)
                k, v = (np.repeat(t, s.heads // s.kv_heads, axis=1) for t in (k, v))
                scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(s.head_dim)
                scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
                scores = np.exp(scores - scores.max(-1, keepdims=True))
                out = np.einsum("hqk,khd->qhd", scores / scores.sum(-1, keepdims=True), v)
                x = x + out.reshape(n, -1) @ w[f"{i}.o"]
            y = norm(x, w[f"{i}.norm2"])
            gate = y @ w[f"{i}.gate"]
            x = x + (gate / (1 + np.exp(-gate)) * (y @ w[f"{i}.up"])) @ w[f"{i}.down"]
        x = norm(x, w["norm"])
        if not head:
            return x
        logits = x @ w["head"]
        return s.soft_cap * np.tanh(logits / s.soft_cap) if s.soft_cap else logits


@dataclass(frozen=True)
class Style:
    """How a decoder is written down.

    ``attention``: ``gqa`` or ``plain`` operators. ``rotary``: inside attention (``fused``), as its own operator
    on ``position_ids`` (``op``), or fused with explicit positions (``positions``).
    """

    attention: str = "gqa"
    rotary: str = "fused"
    packed_qkv: bool = False
    cache: int = FLOAT
    ids: int = INT64
    logits: int = FLOAT
    pruned_head: str = ""  # "gather" or "slice", or "computed", which nobody could recognize
    odd_head: bool = False  # an operator behind the head that is not known to treat rows one by one
    value_info: bool = True
    hidden_states: bool = False
    combined: bool = False  # plain attention with one cache tensor for keys and values
    symbolic_head_dim: bool = False
    extra_input: bool = False


class GraphWriter:
    """Collects nodes with generated names."""

    def __init__(self):
        self.nodes, self.initializers, self.inputs, self.outputs, self.infos = [], [], [], [], []
        self.count = 0

    def const(self, array, name=None):
        name = name or f"const{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind, *inputs, outputs=1, domain="", names=None, shape=None, dtype=FLOAT, **attributes):
        self.count += 1
        names = names or [f"{kind}{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(
                kind, list(inputs), names, domain=domain, name=f"/{kind}{self.count}", **attributes
            )
        )
        if shape is not None:
            self.infos.append(helper.make_tensor_value_info(names[0], dtype, shape))
        return names[0]


def write_graph(decoder: TinyDecoder, style: Style) -> onnx.ModelProto:
    s, w, g = decoder.sizes, decoder.weights, GraphWriter()
    value = helper.make_tensor_value_info
    rows = ["batch", "seq", s.hidden]
    needs_positions = style.attention == "plain" or style.rotary != "fused"
    g.inputs = [value("input_ids", style.ids, ["batch", "seq"])]
    g.inputs.append(value("attention_mask", style.ids, ["batch", "total"]))
    if needs_positions:
        g.inputs.append(value("position_ids", style.ids, ["batch", "seq"]))
    if style.extra_input:
        g.inputs.append(value("current_weather", FLOAT, ["batch"]))
    names = _Common(decoder, style, g)
    x = g.op("Gather", g.const(w["embed"], "embed"), "input_ids", axis=0, shape=rows)
    for i in range(s.layers):
        y = _norm(g, x, w[f"{i}.norm1"], rows)
        if i in s.conv_layers:
            part = _conv(g, names, y, i)
        elif style.attention == "gqa":
            part = _gqa(g, names, y, i)
        else:
            part = _plain(g, names, y, i)
        # one kernel for the sum and its norm, as builders write it
        both = [f"skip{i}", f"sum{i}"]
        g.op(
            "SkipSimplifiedLayerNormalization", x, part, g.const(w[f"{i}.norm2"]),
            names=[both[0], "", "", both[1]], domain=MS, epsilon=1e-6, shape=rows,
        )  # fmt: skip
        g.infos.append(value(both[1], FLOAT, rows))
        gate = g.op("MatMul", both[0], g.const(w[f"{i}.gate"]))
        act = g.op("Mul", gate, g.op("Sigmoid", gate))
        up = g.op("MatMul", both[0], g.const(w[f"{i}.up"]))
        down = g.op("MatMul", g.op("Mul", act, up), g.const(w[f"{i}.down"]), shape=rows)
        x = g.op("Add", both[1], down, shape=rows)
    _head(g, decoder, style, x, rows)
    graph = helper.make_graph(
        g.nodes, "tiny", g.inputs, g.outputs, g.initializers, value_info=g.infos if style.value_info else []
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def decoder_model(decoder: TinyDecoder, style: Style, path: Path, **overrides) -> DecoderModel:
    """Write a graph to ``path`` and describe it."""
    onnx.save(write_graph(decoder, style), path)
    s = decoder.sizes
    values = {
        "path": path,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"},
        "outputs": {"logits": "logits"},
        "num_layers": s.layers,
        "vocab_size": s.vocab,
        "context_length": s.context,
        "rope_switch_length": s.rope_switch,
    }
    return DecoderModel(**(values | overrides))


class _Common:
    """Values that all layers share."""

    def __init__(self, decoder, style, g):
        self.s, self.w, self.style, self.decoder = decoder.sizes, decoder.weights, style, decoder
        one = g.const(np.array([1], np.int64))
        if style.attention == "gqa":
            total = g.op("Sub", g.op("ReduceSum", "attention_mask", one, keepdims=0), _int(g, style, 1))
            self.seqlens = g.op("Cast", total, to=INT32)
            width = g.op("Gather", g.op("Shape", "attention_mask"), g.const(np.int64(1)), axis=0)
            self.total = g.op("Cast", width, to=INT32)
            self.width = width
        fused = style.attention == "gqa" and style.rotary != "op"
        kind = np.float16 if style.cache == FLOAT16 and fused else np.float32
        if self.s.rope_switch is None:
            cos, sin = decoder.rope(long=False)
            self.cos, self.sin = g.const(cos.astype(kind), "cos"), g.const(sin.astype(kind), "sin")
        else:
            self.cos, self.sin = self._switched(g, kind)

    def _switched(self, g, kind):
        longer = g.op("Greater", self.width, g.const(np.int64(self.s.rope_switch)))
        branches = {}
        for branch, long in (("then_branch", True), ("else_branch", False)):
            nodes, outputs = [], []
            for name, table in zip(("cos", "sin"), self.decoder.rope(long), strict=True):
                tensor = numpy_helper.from_array(table.astype(kind))
                nodes.append(helper.make_node("Constant", [], [f"{branch}_{name}"], value=tensor))
                outputs.append(
                    helper.make_tensor_value_info(f"{branch}_{name}", tensor.data_type, table.shape)
                )
            branches[branch] = helper.make_graph(nodes, branch, [], outputs)
        g.op("If", longer, names=["cos", "sin"], **branches)
        return "cos", "sin"


def _int(g, style, number):
    return g.const(np.array(number, np.int32 if style.ids == INT32 else np.int64))


def _norm(g, x, weight, rows):
    return g.op(
        "SimplifiedLayerNormalization", x, g.const(weight), axis=-1, epsilon=1e-6, stash_type=1, shape=rows
    )


def _cache_io(g, names, layer):
    s, style = names.s, names.style
    width = "head_dim" if style.symbolic_head_dim else s.head_dim
    io = []
    for kind in ("key", "value"):
        past, present = f"past_key_values.{layer}.{kind}", f"present.{layer}.{kind}"
        for values, name, length in ((g.inputs, past, "past"), (g.outputs, present, "total")):
            shape = ["batch", s.kv_heads, length, width]
            values.append(helper.make_tensor_value_info(name, style.cache, shape))
        io += [past, present]
    return io


def _gqa(g, names, y, layer):
    s, w, style = names.s, names.w, names.style
    parts = [w[f"{layer}.{n}"] for n in "qkv"]
    widths = [p.shape[1] for p in parts]
    attributes = {"num_heads": s.heads, "kv_num_heads": s.kv_heads, "domain": MS}
    if style.packed_qkv:
        packed = g.op("MatMul", y, g.const(np.concatenate(parts, 1)), shape=["batch", "seq", sum(widths)])
        qkv = [packed, "", ""]
    else:
        qkv = [
            g.op("MatMul", y, g.const(p), shape=["batch", "seq", n])
            for p, n in zip(parts, widths, strict=True)
        ]
    tail = [names.cos, names.sin]
    if style.rotary == "op":
        qkv[:2] = [
            g.op("RotaryEmbedding", v, _positions64(g, style), names.cos, names.sin, domain=MS, num_heads=n)
            for v, n in zip(qkv[:2], (s.heads, s.kv_heads), strict=True)
        ]
        tail = []
    elif style.rotary == "positions":
        tail.append(_positions64(g, style))
    if tail:
        attributes["do_rotary"] = 1
    if style.cache == FLOAT16:
        qkv = [v and g.op("Cast", v, to=FLOAT16) for v in qkv]
    past_key, present_key, past_value, present_value = _cache_io(g, names, layer)
    out = g.op(
        "GroupQueryAttention", *qkv, past_key, past_value, names.seqlens, names.total, *tail,
        names=[f"attention{layer}", present_key, present_value], **attributes,
    )  # fmt: skip
    if style.cache == FLOAT16:
        out = g.op("Cast", out, to=FLOAT)
    return g.op("MatMul", out, g.const(w[f"{layer}.o"]), shape=["batch", "seq", s.hidden])


def _positions64(g, style):
    return g.op("Cast", "position_ids", to=INT64) if style.ids == INT32 else "position_ids"


def _plain(g, names, y, layer):
    s, w = names.s, names.w
    axes = {a: g.const(np.array([a], np.int64)) for a in (1, 2, 3)}

    def heads(kind, count):
        flat = g.op("MatMul", y, g.const(w[f"{layer}.{kind}"]))
        shaped = g.op("Reshape", flat, g.const(np.array([0, 0, count, s.head_dim], np.int64)))
        return g.op("Transpose", shaped, perm=[0, 2, 1, 3])

    cos, sin = (
        g.op("Unsqueeze", g.op("Gather", t, "position_ids", axis=0), axes[1]) for t in (names.cos, names.sin)
    )

    def rotate(x):
        a, b = f"{x}a", f"{x}b"
        g.op("Split", x, names=[a, b], axis=-1, num_outputs=2)
        left = g.op("Sub", g.op("Mul", a, cos), g.op("Mul", b, sin))
        return g.op("Concat", left, g.op("Add", g.op("Mul", a, sin), g.op("Mul", b, cos)), axis=-1)

    q, k, v = rotate(heads("q", s.heads)), rotate(heads("k", s.kv_heads)), heads("v", s.kv_heads)
    k, v = (_grow_combined if names.style.combined else _grow)(g, names, k, v, layer)
    k, v = (_repeat(g, t, s) for t in (k, v))
    scores = g.op(
        "Mul",
        g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])),
        g.const(np.float32(s.head_dim**-0.5)),
    )
    length = g.op("Gather", g.op("Shape", k), g.const(np.int64(2)), axis=0)
    keys = g.op("Range", g.const(np.int64(0)), length, g.const(np.int64(1)))
    positions = g.op("Unsqueeze", g.op("Unsqueeze", _positions64(g, names.style), axes[1]), axes[3])
    seen = g.op("LessOrEqual", keys, positions)
    here = g.op(
        "Unsqueeze", g.op("Unsqueeze", g.op("Cast", "attention_mask", to=TensorProto.BOOL), axes[1]), axes[2]
    )
    scores = g.op("Where", g.op("And", seen, here), scores, g.const(np.float32(-1e9)))
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    flat = g.op(
        "Reshape",
        mixed,
        g.const(np.array([0, 0, -1], np.int64)),
        shape=["batch", "seq", s.heads * s.head_dim],
    )
    return g.op("MatMul", flat, g.const(w[f"{layer}.o"]), shape=["batch", "seq", s.hidden])


def _grow(g, names, k, v, layer):
    style, grown = names.style, []
    past_key, present_key, past_value, present_value = _cache_io(g, names, layer)
    for new, past, present in ((k, past_key, present_key), (v, past_value, present_value)):
        if style.cache != FLOAT:
            new = g.op("Cast", new, to=style.cache)
        g.op("Concat", past, new, names=[present], axis=2)
        grown.append(g.op("Cast", present, to=FLOAT))
    return grown


def _grow_combined(g, names, k, v, layer):
    s = names.s
    past, present, zero = f"past_{layer}", f"present_{layer}", g.const(np.array([0], np.int64))
    for values, name, length in ((g.inputs, past, "past"), (g.outputs, present, "total")):
        shape = [2, "batch", s.kv_heads, length, s.head_dim]
        values.append(helper.make_tensor_value_info(name, FLOAT, shape))
    new = g.op("Concat", g.op("Unsqueeze", k, zero), g.op("Unsqueeze", v, zero), axis=0)
    g.op("Concat", past, new, names=[present], axis=3)
    return [g.op("Gather", present, g.const(np.int64(i)), axis=0) for i in range(2)]


def _repeat(g, x, s):
    wide = g.op("Unsqueeze", x, g.const(np.array([2], np.int64)))
    wide = g.op("Tile", wide, g.const(np.array([1, 1, s.heads // s.kv_heads, 1, 1], np.int64)))
    return g.op("Reshape", wide, g.const(np.array([0, s.heads, -1, s.head_dim], np.int64)))


def _conv(g, names, y, layer):
    s = names.s
    past, present = f"past_conv.{layer}", f"present_conv.{layer}"
    for values, name in ((g.inputs, past), (g.outputs, present)):
        values.append(helper.make_tensor_value_info(name, FLOAT, ["batch", s.hidden, s.conv]))
    joined = g.op("Concat", past, g.op("Transpose", y, perm=[0, 2, 1]), axis=2)
    axis, end = g.const(np.array([2], np.int64)), g.const(np.array([1 << 40], np.int64))
    g.op("Slice", joined, g.const(np.array([-s.conv], np.int64)), end, axis, names=[present])
    recent = g.op("Slice", joined, g.const(np.array([1], np.int64)), end, axis)
    out = g.op("Conv", recent, g.const(names.w[f"{layer}.conv"]), group=s.hidden)
    return g.op("Transpose", out, perm=[0, 2, 1], shape=["batch", "seq", s.hidden])


def _head(g, decoder, style, x, rows):
    s, w = decoder.sizes, decoder.weights
    value = helper.make_tensor_value_info
    y = _norm(g, x, w["norm"], rows)
    if style.hidden_states:
        g.nodes[-1].output[0] = "hidden_states"
        g.outputs.append(value("hidden_states", FLOAT, rows))
        g.infos = [i for i in g.infos if i.name != y]
        y = "hidden_states"
    seq = "seq"
    if style.pruned_head:
        seq = 1
    if style.pruned_head == "gather":
        last = g.op("Gather", y, g.const(np.int64(-1)), axis=1)
        y = g.op("Unsqueeze", last, g.const(np.array([1], np.int64)))
    elif style.pruned_head == "slice":
        one, end = g.const(np.array([1], np.int64)), g.const(np.array([2**63 - 1], np.int64))
        y = g.op("Slice", y, g.const(np.array([-1], np.int64)), end, one)
    elif style.pruned_head == "computed":
        length = g.op("Gather", g.op("Shape", y), g.const(np.array([1], np.int64)), axis=0)
        y = g.op("Gather", y, g.op("Sub", length, g.const(np.array([1], np.int64))), axis=1)
    out = g.op("MatMul", y, g.const(w["head"], "head"))
    if style.odd_head:
        out = g.op("ThresholdedRelu", out, alpha=-1e9)
    if s.soft_cap:
        cap = g.const(np.float32(s.soft_cap))
        out = g.op("Mul", g.op("Tanh", g.op("Div", out, cap)), cap)
    if style.logits != FLOAT:
        out = g.op("Cast", out, to=style.logits)
    g.nodes[-1].output[0] = "logits"
    g.outputs.append(value("logits", style.logits, ["batch", seq, s.vocab]))
