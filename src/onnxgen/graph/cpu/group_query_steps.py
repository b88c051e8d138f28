"""GroupQueryAttention step by step, in float32.

For what compiled blocks do not do: scores that somebody wants to see, caches of a window, and caches of 8-bit floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import attend, causal_bias
from onnxgen.graph.cpu.group_query_call import GroupQueryCall
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import copy_into
from onnxgen.graph.cpu.normalization import rms_normalized
from onnxgen.graph.cpu.rotary import rotated


class GroupQuerySteps:
    """The computation of one call."""

    def __init__(self, call: GroupQueryCall) -> None:
        self.call, self.options, self.given = call, call.options, call.given
        self.query = self._rotated(self._normed(_heads_first(call.query), "q"))
        self.key = self._rotated(self._normed(_heads_first(call.key), "k"))
        self.value = _heads_first(call.value)
        bias = call.bias()
        self.bias = None if bias is None else widened(bias)
        sink = call.sink()
        self.sink = None if sink is None else widened(sink)

    def compute(
        self, present_key: np.ndarray, present_value: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Fill the caches; return the output ``[batch, seq, heads * v_head_dim]`` and the scores or weights if wanted."""
        call = self.call
        output = np.zeros((call.batch, call.seq, self.options.heads, call.value_dim), np.float32)
        qk = self._empty_qk()
        for index, (past, new) in enumerate(zip(call.pasts, call.news, strict=True)):
            keys = self._store(index, present_key, "key", self.key)
            values = self._store(index, present_value, "value", self.value)
            if not new:
                continue
            first, total = past + new - keys.shape[1], past + new
            found = self._attended(index, keys, values, first)
            output[index, :new] = found.output.swapaxes(0, 1)
            if qk is not None:
                visible = np.where(np.isneginf(found.scores), 0, found.scores)
                qk[index, :, :new, first:total] = visible if self.options.qk_output == 1 else found.weights
        dtype = call.query.dtype
        return output.reshape(call.batch, call.seq, -1).astype(dtype, copy=False), qk

    def _normed(self, x: np.ndarray, part: str) -> np.ndarray:
        weight = self.call.norm_weight(part)
        return x if weight is None else rms_normalized(x, self.call.norm_epsilon(part)) * weight

    def _rotated(self, x: np.ndarray) -> np.ndarray:
        if not self.options.rotates or not x.shape[2]:
            return x
        places, tables = self.call.positions(), self.call.rotary_tables()
        cos, sin = (widened(table)[places][:, None] for table in tables)  # [batch, 1, seq, half]
        return rotated(x, cos, sin, interleaved=self.options.interleaved)

    def _store(self, index: int, present: np.ndarray, part: str, new: np.ndarray) -> np.ndarray:
        """Write one sequence's cache, unless its tokens are there already; return what its queries attend to, ``[kv_heads, keys, head_dim]`` float32."""
        codec, past = self.call.codecs[part], self.given[f"past_{part}"]
        start, total, capacity = self.call.pasts[index], self.call.totals[index], self.call.capacity
        fresh = codec.encode(new[index][:, : total - start])
        if not self.options.windowed_cache:
            if past is not None:
                copy_into(present[index][:, :capacity], past[index])
            present[index][:, max(capacity, total) :] = 0
            if not self.call.reuses:
                present[index][:, start:total] = fresh
            return codec.decode(present[index][:, :total])
        resident = past[index][:, : self._resident(start)]
        rows = np.concatenate([resident, fresh], axis=1)
        kept = self._resident(total)
        present[index][:, :kept] = rows[:, rows.shape[1] - kept :]
        present[index][:, kept:] = 0
        return codec.decode(rows)

    def _resident(self, total: int) -> int:
        """How many of ``total`` tokens a window-sized cache holds: it drops ``step`` at once when it is full."""
        window, capacity = self.options.window or 0, self.call.capacity
        if capacity < window:
            raise KernelError(
                f"{self.call.node}: a cache of {capacity} rows is smaller than the window of {window}"
            )
        step = capacity - window + 1
        return total if total <= capacity else total - step * -((capacity - total) // step)

    def _attended(self, index: int, keys: np.ndarray, values: np.ndarray, first: int) -> Any:
        options, past, total = self.options, self.call.pasts[index], self.call.totals[index]
        bias = (
            causal_bias(np.arange(past, total), np.arange(first, total), window=options.window)
            if options.causal
            else np.zeros((1, 1), np.float32)
        )
        if self.bias is not None:
            row = self.bias[index if len(self.bias) > 1 else 0]
            bias = bias + row[:, : total - past, first:total]
        return attend(
            self.query[index][:, : total - past],
            keys,
            values,
            scale=self.call.scale,
            bias=bias,
            softcap=options.softcap,
            sink=self.sink,
        )

    def _empty_qk(self) -> np.ndarray | None:
        call = self.call
        if not self.options.qk_output or not call.node.wants_output(3):
            return None
        return np.zeros((call.batch, self.options.heads, call.seq, call.longest), call.query.dtype)


def _heads_first(x: np.ndarray) -> np.ndarray:
    """``[batch, heads, seq, head_dim]`` in float32."""
    return widened(x).swapaxes(1, 2)
