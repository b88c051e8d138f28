"""GroupQueryAttention of ``com.microsoft``: grouped heads, a key-value cache, rotary embedding, in one operator.

For each sequence of the batch, with ``total = seqlens_k + 1`` tokens after this step of which ``new`` are in the query:

    cache rows     0 ........ past ............. total .... capacity
                   | cached    | new              | unspecified
    query rows                  0 .............. new ...... seq
                                | valid           | padding, whose output is zeros
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import attend, causal_bias, to_heads
from onnxgen.graph.cpu.group_query_options import GroupQueryOptions
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices, copy_into, integers, scalar
from onnxgen.graph.cpu.kv_quantization import CacheCodec
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.normalization import rms_normalized
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.rotary import rotated
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_INPUTS = (
    *("query", "key", "value", "past_key", "past_value", "seqlens_k", "total_sequence_length", "cos_cache"),
    *("sin_cache", "position_ids", "attention_bias", "head_sink", "k_scale", "v_scale", "q_norm_weight"),
    *("k_norm_weight", "query_seqlens"),
)


@dataclass(frozen=True, slots=True)
class _Extent:
    """How many tokens of one sequence are cached, and how many of the query are valid."""

    past: int
    new: int

    @property
    def total(self) -> int:
        return self.past + self.new


@TABLE.operator("GroupQueryAttention", 1, domain=MICROSOFT)
def group_query_attention(node: NodeSpec) -> Kernel:
    """Attends to past and new keys and appends the new ones to the cache, which may be one buffer in and out."""
    options = GroupQueryOptions.of(node)

    def named(*inputs: np.ndarray | None) -> dict[str, Any]:
        return dict(zip(_INPUTS, (*inputs, *(None,) * (len(_INPUTS) - len(inputs))), strict=True))

    def run(*inputs: np.ndarray | None) -> Any:
        given = named(*inputs)
        step = _Step(node, options, given)
        present = tuple(np.zeros(step.cache_shape(part), step.cache_dtype) for part in ("key", "value"))
        output, qk = step.compute(*present)
        results = (output, *present, qk)
        wanted = tuple(
            r if node.wants_output(i) else None for i, r in enumerate(results[: len(node.outputs)])
        )
        return wanted if len(wanted) > 1 else output

    def into(*arrays: np.ndarray | None) -> None:
        count = len(node.outputs)
        step = _Step(node, options, named(*arrays[:-count]))
        outputs: Any = arrays[-count:]
        output, qk = step.compute(outputs[1], outputs[2])
        outputs[0][...] = output
        if count > 3:
            outputs[3][...] = qk

    # Without the caches as outputs they would have to be made for nothing: `run` does that.
    return Kernel(run, into if len(node.outputs) > 2 else None, in_place=((1, 3), (2, 4)))


class _Step:
    """One call: its inputs, and what follows from their shapes and lengths."""

    def __init__(self, node: NodeSpec, options: GroupQueryOptions, given: dict[str, Any]) -> None:
        self.node, self.options, self.given = node, options, given
        self.dtype = given["query"].dtype
        self.query, self.key, self.value = self._projections()
        self.batch, _, self.seq, self.head_dim = self.query.shape
        self.longest = int(scalar(node, given["total_sequence_length"], "total_sequence_length"))
        self.extents = self._extents()
        self.cache_dtype = self.dtype if given["past_key"] is None else given["past_key"].dtype
        self.codecs = {
            part: CacheCodec.of_node(node, part[0], given[f"{part[0]}_scale"], self.cache_dtype)
            for part in ("key", "value")
        }
        self.key = self._rotated(self._normed(self.key, "k"), fresh=True)
        self.query = self._rotated(self._normed(self.query, "q"), fresh=False)

    def cache_shape(self, part: str) -> tuple[int, ...]:
        """The shape of a present cache ``[batch, kv_heads, rows, width]``."""
        past = self.given[f"past_{part}"]
        new = self.key if part == "key" else self.value
        capacity = 0 if past is None else past.shape[2]
        needed = max([self.longest, *(extent.total for extent in self.extents)])
        rows = (
            capacity
            if self.options.windowed_cache
            else max(capacity, needed if self.given["query_seqlens"] is None else 0)
        )
        width = self.codecs[part].stored_width(new.shape[3])
        shape = (self.batch, self.options.kv_heads, rows or needed, width)
        require_memory(self.node, shape, self.cache_dtype)
        return shape

    def compute(
        self, present_key: np.ndarray, present_value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Fill the caches; return the output ``[batch, seq, heads * v_head_dim]`` and the scores or weights if wanted."""
        width = self.value.shape[3]
        output = np.zeros((self.batch, self.seq, self.options.heads, width), np.float32)
        qk = self._empty_qk()
        for index, extent in enumerate(self.extents):
            keys = self._store(index, extent, present_key, "key", self.key)
            values = self._store(index, extent, present_value, "value", self.value)
            if not extent.new:
                continue
            first = extent.total - keys.shape[1]
            found = self._attended(index, extent, keys, values, first)
            output[index, : extent.new] = found.output.swapaxes(0, 1)
            if qk is not None:
                visible = np.where(np.isneginf(found.scores), 0, found.scores)
                shown = visible if self.options.qk_output == 1 else found.weights
                qk[index, :, : extent.new, first : extent.total] = shown
        return output.reshape(self.batch, self.seq, -1).astype(self.dtype, copy=False), qk

    def _projections(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        heads, kv_heads = self.options.heads, self.options.kv_heads
        query, key, value = (self.given[name] for name in _INPUTS[:3])
        if key is None:
            width = query.shape[2] // (heads + 2 * kv_heads)
            query, key, value = np.split(query, [heads * width, (heads + kv_heads) * width], axis=-1)
        if query.shape[2] % heads or key.shape[2] % kv_heads or heads % kv_heads:
            raise KernelError(
                f"{self.node}: query {query.shape} and key {key.shape} do not fit {heads} and {kv_heads} heads"
            )
        return (
            to_heads(widened(query), heads),
            to_heads(widened(key), kv_heads),
            to_heads(widened(value), kv_heads),
        )

    def _extents(self) -> list[_Extent]:
        totals = [last + 1 for last in integers(self.given["seqlens_k"])]
        valid = self.given["query_seqlens"]
        news = [min(self.seq, total) for total in totals] if valid is None else integers(valid)
        past = self.given["past_key"]
        capacity = 0 if past is None else past.shape[2]
        if not self._reuses and self.key.shape[2] != self.seq:
            raise KernelError(
                f"{self.node}: {self.key.shape[2]} new keys for {self.seq} queries; give as many, or none"
            )
        if len(totals) != self.batch or len(news) != self.batch:
            raise KernelError(
                f"{self.node}: {len(totals)} seqlens_k and {len(news)} lengths for a batch of {self.batch}"
            )
        for total, new in zip(totals, news, strict=True):
            cached = total if self._reuses else total - new
            fits = self.options.windowed_cache or cached <= capacity
            if total < 1 or not 0 <= new <= min(self.seq, total) or not fits:
                raise KernelError(
                    f"{self.node}: {new} new of {total} tokens do not fit a query of {self.seq} rows and a cache of {capacity}"
                )
        return [_Extent(total - new, new) for total, new in zip(totals, news, strict=True)]

    @property
    def _reuses(self) -> bool:
        """Whether there are no new keys: the layer attends to a cache that another one has filled."""
        return self.seq > 0 and not self.key.shape[2]

    def _normed(self, x: np.ndarray, part: str) -> np.ndarray:
        weight = self.given[f"{part}_norm_weight"]
        if weight is None:
            return x
        epsilon = self.node.attr(f"{part}_norm_epsilon", self.node.attr("qk_norm_epsilon", 1e-6))
        return rms_normalized(x, epsilon) * widened(weight)

    def _rotated(self, x: np.ndarray, *, fresh: bool) -> np.ndarray:
        if not self.options.rotates or not x.shape[2]:
            return x
        positions = self._positions(x.shape[2])
        cos, sin = self.given["cos_cache"], self.given["sin_cache"]
        if cos is None or sin is None:
            raise KernelError(f"{self.node}: do_rotary needs cos_cache and sin_cache")
        places = checked_indices(self.node, positions, len(cos))
        cos, sin = (widened(table)[places][:, None] for table in (cos, sin))  # [batch, 1, seq, half]
        return rotated(x, cos, sin, interleaved=self.options.interleaved)

    def _positions(self, seq: int) -> np.ndarray:
        """Positions ``[batch, seq]``; those of padding are of no meaning, but in range."""
        given, steps = self.given["position_ids"], np.arange(seq)
        if given is not None:
            is_first = self.seq == self.longest and self.given["query_seqlens"] is None
            # The contract of the operator: of a first prompt's position ids only the first is used.
            return given.reshape(-1)[0] + np.tile(steps, (self.batch, 1)) if is_first else given
        starts = np.array([extent.past for extent in self.extents])
        news = np.array([extent.new for extent in self.extents])
        return np.where(steps < news[:, None], starts[:, None] + steps, 0)

    def _store(
        self, index: int, extent: _Extent, present: np.ndarray, part: str, new: np.ndarray
    ) -> np.ndarray:
        """Write one sequence's cache, unless its tokens are there already; return what its queries attend to, ``[kv_heads, keys, head_dim]`` float32."""
        codec, past = self.codecs[part], self.given[f"past_{part}"]
        fresh = codec.encode(new[index][:, : extent.new])
        if not self.options.windowed_cache:
            capacity = 0 if past is None else past.shape[2]
            if past is not None:
                copy_into(present[index][:, :capacity], past[index])
            present[index][:, max(capacity, extent.total) :] = 0
            if not self._reuses:
                present[index][:, extent.past : extent.total] = fresh
            return codec.decode(present[index][:, : extent.total])
        capacity = past.shape[2]
        resident = past[index][:, : self._resident(extent.past, capacity)]
        rows = np.concatenate([resident, fresh], axis=1)
        kept = self._resident(extent.total, capacity)
        present[index][:, :kept] = rows[:, rows.shape[1] - kept :]
        present[index][:, kept:] = 0
        return codec.decode(rows)

    def _resident(self, total: int, capacity: int) -> int:
        """How many of ``total`` tokens a window-sized cache holds: it drops ``step`` at once when it is full."""
        window = self.options.window or 0
        if capacity < window:
            raise KernelError(
                f"{self.node}: a cache of {capacity} rows is smaller than the window of {window}"
            )
        step = capacity - window + 1
        return total if total <= capacity else total - step * -((capacity - total) // step)

    def _attended(self, index: int, extent: _Extent, keys: np.ndarray, values: np.ndarray, first: int) -> Any:
        options, given = self.options, self.given
        queries = np.arange(extent.past, extent.total)
        bias = (
            causal_bias(queries, np.arange(first, extent.total), window=options.window)
            if options.causal
            else np.zeros((1, 1), np.float32)
        )
        extra = given["attention_bias"]
        if extra is not None:
            row = widened(extra[index if len(extra) > 1 else 0])
            bias = bias + row[:, : extent.new, first : extent.total]
        sink = given["head_sink"]
        if sink is None and options.smooth:
            sink = np.zeros(options.heads, np.float32)
        return attend(
            self.query[index][:, : extent.new],
            keys,
            values,
            scale=options.scale or self.head_dim**-0.5,
            bias=bias,
            softcap=options.softcap,
            sink=None if sink is None else widened(sink),
        )

    def _empty_qk(self) -> np.ndarray | None:
        if not self.options.qk_output or not self.node.wants_output(3):
            return None
        return np.zeros((self.batch, self.options.heads, self.seq, self.longest), self.dtype)
