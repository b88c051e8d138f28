"""Step plans computed with NumPy in float64, for whole sequences without a cache: what the kernels are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import ml_dtypes
import numpy as np

from onnxgen.backends.native.plan import (
    BlockMatrix,
    Call,
    Family,
    FloatMatrix,
    Part,
    RowKind,
    StepPlan,
    Stored,
    Vector,
    View,
)
from onnxgen.foundations.packed_bits import unpack


class PlanOracle:
    """Runs a plan.

    Args:
        plan: The plan.
        folder: Where its files are.
        switch_length: Longer sequences use the long rotary tables.
    """

    def __init__(self, plan: StepPlan, folder: Path, *, switch_length: int | None = None) -> None:
        self.plan, self.folder, self.switch_length = plan, folder, switch_length
        self._arrays: dict[str, np.ndarray] = {}

    def logits(self, tokens: Sequence[int]) -> np.ndarray:
        """float64 ``[tokens, vocab]`` after each of the tokens."""
        return self._columns(self._run(tokens), self.plan.logits)

    def hidden(self, tokens: Sequence[int]) -> np.ndarray:
        """float64 ``[tokens, hidden]``."""
        assert self.plan.hidden_states is not None
        return self._columns(self._run(tokens), self.plan.hidden_states)

    def _run(self, tokens: Sequence[int]) -> dict[str, np.ndarray]:
        count = len(tokens)
        values = {name: np.full((count, buffer.width), np.nan) for name, buffer in self.plan.buffers.items()}
        for call in self.plan.calls:
            reads = {role: self._columns(values, view) for role, view in call.reads.items()}
            weights = {role: self._weight(name) for role, name in call.weights.items()}
            results = self._call(call, reads, weights, np.asarray(tokens))
            for role, view in call.writes.items():
                assert self.plan.buffers[view.buffer].rows is call.rows or call.rows is RowKind.TOKENS
                self._columns(values, view)[...] = results[role]
        return values

    def _call(self, call: Call, reads, weights, tokens) -> dict[str, np.ndarray]:
        x = reads.get("x")
        match call.family:
            case Family.EMBED:
                return {"y": weights["table"][tokens] * call.real("factor")}
            case Family.NORM:
                return _norm(call, reads, weights)
            case Family.PRODUCT:
                y = x @ weights["matrix"].T + weights.get("bias", 0.0)
                if call.text("epilogue"):
                    y = (
                        FUNCTIONS[call.text("epilogue")](y[:, : y.shape[1] // 2], 0.0)
                        * y[:, y.shape[1] // 2 :]
                    )
                return {"y": y + reads.get("residual", 0.0)}
            case Family.MAP:
                return {"y": FUNCTIONS[call.text("function")](x, call.real("amount"))}
            case Family.ADD:
                return {"y": x + (reads["other"] if "other" in reads else weights["other"])}
            case Family.MULTIPLY:
                return {"y": x * (reads["other"] if "other" in reads else weights["other"])}
            case Family.GATE:
                return {"y": FUNCTIONS[call.text("function")](reads["gate"], 0.0) * reads["up"]}
            case Family.ROTATE:
                return {"y": self._rotated(call, x, weights, call.number("heads"))}
            case Family.ATTEND:
                return {"y": self._attended(call, reads, weights)}
            case Family.PAD:
                heads, width, padded = (call.number(name) for name in ("heads", "width", "padded"))
                y = np.zeros((len(x), heads, padded))
                y[..., :width] = x.reshape(len(x), heads, width)[..., :padded]
                return {"y": y.reshape(len(x), -1)}
            case Family.SELECT | Family.QUANTIZE:
                return {"y": x}

    def _attended(self, call: Call, reads, weights) -> np.ndarray:
        heads, kv_heads, width = call.number("heads"), call.number("kv_heads"), call.number("head_dim")
        query, key, value = reads["query"], reads["key"], reads["value"]
        count = len(query)
        if "query_norm" in weights:
            query = _rms(query, weights["query_norm"], call.real("epsilon"), heads)
        if "key_norm" in weights:
            key = _rms(key, weights["key_norm"], call.real("epsilon"), kv_heads)
        if call.number("rotary_dim"):
            query = self._rotated(call, query, weights, heads)
            key = self._rotated(call, key, weights, kv_heads)
        query = query.reshape(count, heads, width)
        key, value = (
            np.repeat(t.reshape(count, kv_heads, width), heads // kv_heads, 1) for t in (key, value)
        )
        scores = np.einsum("qhd,khd->hqk", query, key) * call.real("scale")
        if call.real("softcap"):
            scores = np.tanh(scores / call.real("softcap")) * call.real("softcap")
        at = np.arange(count)
        seen = at[:, None] >= at
        if call.number("window"):
            seen &= at[:, None] - at < call.number("window")
        scores = np.where(seen, scores, -np.inf)
        most = scores.max(-1, keepdims=True)
        sinks = weights.get("sinks")
        if sinks is not None:
            most = np.maximum(most, sinks[:, None, None])
        shares = np.exp(scores - most)
        total = shares.sum(-1, keepdims=True)
        if sinks is not None:
            total = total + np.exp(sinks[:, None, None] - most)
        return np.einsum("hqk,khd->qhd", shares / total, value).reshape(count, -1)

    def _rotated(self, call: Call, x: np.ndarray, weights, heads: int) -> np.ndarray:
        count, rotary, width = len(x), call.number("rotary_dim"), call.number("head_dim")
        long = self.switch_length is not None and count > self.switch_length
        cos, sin = (
            weights[f"{t}_long" if long and f"{t}_long" in weights else t][:count, None]
            for t in ("cos", "sin")
        )
        x = x.reshape(count, heads, width)
        y, turned = x.copy(), x[..., :rotary]
        if call.number("interleaved"):
            a, b = turned[..., ::2], turned[..., 1::2]
            y[..., :rotary:2], y[..., 1:rotary:2] = a * cos - b * sin, a * sin + b * cos
        else:
            a, b = np.split(turned, 2, axis=-1)
            y[..., :rotary] = np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)
        return y.reshape(count, -1)

    def _columns(self, values: dict[str, np.ndarray], view: View) -> np.ndarray:
        return values[view.buffer][:, view.offset : view.offset + view.width]

    def _weight(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = np.concatenate([self._part(p) for p in self.plan.weights[name].parts])
        return self._arrays[name]

    def _part(self, part: Part) -> np.ndarray:
        if isinstance(part, Vector):
            return read(part.values, self.folder).astype(np.float64) * part.factor
        if isinstance(part, FloatMatrix):
            values = read(part.values, self.folder).astype(np.float64)
            return values.T if part.transposed else values
        return dequantized(part, self.folder)


def read(stored: Stored, folder: Path) -> np.ndarray:
    """The elements of a tensor."""
    dtype = np.dtype(getattr(ml_dtypes, stored.dtype, stored.dtype))
    size = math.prod(stored.shape) * dtype.itemsize
    content = stored.inline
    if stored.file is not None:
        with (folder / stored.file).open("rb") as file:
            file.seek(stored.offset)
            content = file.read(size)
    assert len(content) == size
    return np.frombuffer(content, dtype).reshape(stored.shape)


def dequantized(part: BlockMatrix, folder: Path) -> np.ndarray:
    """float64 ``[rows, columns]``."""
    blocks = -(-part.columns // part.block_size)
    codes = unpack(read(part.codes, folder).reshape(part.rows, blocks, -1), part.bits, part.block_size)
    scales = read(part.scales, folder).astype(np.float64).reshape(part.rows, blocks, 1)
    zeros: np.ndarray | float = float(1 << (part.bits - 1))
    if part.zeros is not None:
        stored = read(part.zeros, folder)
        packed = stored.dtype == np.uint8
        zeros = unpack(stored.reshape(part.rows, -1), part.bits, blocks) if packed else stored
        zeros = zeros.astype(np.float64).reshape(part.rows, blocks, 1)
    return ((codes - zeros) * scales).reshape(part.rows, -1)[:, : part.columns]


def _norm(call: Call, reads, weights) -> dict[str, np.ndarray]:
    total = reads["x"] + reads.get("skip", 0.0) + weights.get("skip_bias", 0.0)
    groups, epsilon = call.number("groups"), call.real("epsilon")
    if call.text("kind") == "rms":
        y = _rms(total, weights["scale"], epsilon, groups)
    else:
        parts = total.reshape(len(total), groups, -1)
        centred = parts - parts.mean(-1, keepdims=True)
        y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * weights["scale"]
        y = y.reshape(total.shape)
    if "bias" in weights:
        y = y + np.tile(weights["bias"], groups)
    return {"y": y, "sum": total, "q": y}


def _rms(x: np.ndarray, scale: np.ndarray, epsilon: float, groups: int) -> np.ndarray:
    parts = x.reshape(len(x), groups, -1)
    return (parts / np.sqrt((parts**2).mean(-1, keepdims=True) + epsilon) * scale).reshape(x.shape)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


FUNCTIONS = {
    "scale": lambda x, amount: x * amount,
    "sigmoid": lambda x, _: 1 / (1 + np.exp(-x)),
    "silu": lambda x, _: x / (1 + np.exp(-x)),
    "swish": lambda x, amount: x / (1 + np.exp(-amount * x)),
    "tanh": lambda x, _: np.tanh(x),
    "softcap": lambda x, amount: np.tanh(x / amount) * amount,
    "gelu": lambda x, _: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x, _: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}
