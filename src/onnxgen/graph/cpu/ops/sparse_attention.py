"""SparseAttention of ``com.microsoft``: a causal mask of blocks, different ones for groups of heads."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import to_heads
from onnxgen.graph.cpu.attention_blocks import attended
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices, copy_into, integers, scalar
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.rotary import rotated
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("SparseAttention", 1, domain=MICROSOFT)
def sparse_attention(node: NodeSpec) -> Kernel:
    """Attends over caches ``[batch, kv_heads, longest, head_dim]``, which may be one buffer in and out."""
    heads, kv_heads, block = node.attr("num_heads"), node.attr("kv_num_heads"), node.attr("sparse_block_size")

    def into(
        query: np.ndarray,
        key: np.ndarray | None,
        value: np.ndarray | None,
        past_key: np.ndarray,
        past_value: np.ndarray,
        rows: np.ndarray,
        columns: np.ndarray,
        longest: np.ndarray,
        totals: np.ndarray,
        *rest: np.ndarray,
    ) -> None:
        *caches, output, present_key, present_value = rest
        if key is None or value is None:
            width = query.shape[2] // (heads + 2 * kv_heads)
            query, key, value = np.split(query, [heads * width, (heads + kv_heads) * width], axis=-1)
        q = to_heads(widened(query), heads)
        new = [to_heads(widened(part), kv_heads) for part in (key, value)]
        batch, _, seq, head_dim = q.shape
        lengths = integers(totals)
        if len(lengths) != batch or max(lengths) > past_key.shape[2] or min(lengths) < 1:
            raise KernelError(
                f"{node}: lengths {lengths} do not fit a batch of {batch} and a cache of {past_key.shape[2]}"
            )
        first_prompt = scalar(node, longest, "total_sequence_length") == seq
        pasts = [0 if first_prompt else total - seq for total in lengths]
        if min(pasts) < 0 or max(pasts) + seq > past_key.shape[2]:
            raise KernelError(
                f"{node}: {seq} new tokens do not fit totals {lengths} and a cache of {past_key.shape[2]}"
            )
        if node.attr("do_rotary", 0):
            positions = np.array(pasts)[:, None] + np.arange(seq)
            cos, sin = (widened(c)[checked_indices(node, positions, len(c))][:, None] for c in caches)
            interleaved = bool(node.attr("rotary_interleaved", 0))
            q, new[0] = (rotated(x, cos, sin, interleaved=interleaved) for x in (q, new[0]))
        seen = _block_masks(rows, columns)  # [layouts, blocks, blocks]
        for index, (past, total) in enumerate(zip(pasts, lengths, strict=True)):
            for present, old, part in ((present_key, past_key, new[0]), (present_value, past_value, new[1])):
                copy_into(present[index], old[index])
                present[index][:, past : past + seq] = part[index]
            places, keys = np.arange(past, past + seq)[:, None], np.arange(total)[None]
            visible = seen[:, places // block, keys // block] & (keys <= places)  # [layouts, seq, keys]
            rows = output[index].reshape(1, seq, heads, -1).swapaxes(1, 2)  # [1, heads, seq, v_head_dim]
            attended(
                q[None, index],
                present_key[None, index, :, :total],
                present_value[None, index, :, :total],
                scale=node.attr("scale", 0.0) or head_dim**-0.5,
                mask=visible[None, np.arange(heads) % len(seen)],
                out=rows,
            )

    def run(query: np.ndarray, key: np.ndarray | None, *rest: np.ndarray) -> tuple[np.ndarray, ...]:
        past_key, past_value = rest[1], rest[2]
        shape = (*query.shape[:2], heads * past_value.shape[3])
        outputs = np.empty(shape, query.dtype), np.empty_like(past_key), np.empty_like(past_value)
        into(query, key, *rest, *outputs)
        return outputs

    return Kernel(run, into, in_place=((1, 3), (2, 4)))


def _block_masks(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compressed rows of each layout as boolean matrices."""
    blocks = rows.shape[1] - 1
    masks = np.zeros((len(rows), blocks, blocks), bool)
    for layout, (ends, ids) in enumerate(zip(rows, columns, strict=True)):
        masks[layout, np.repeat(np.arange(blocks), np.diff(ends)), ids[: ends[-1]]] = True
    return masks
