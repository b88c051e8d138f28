"""GroupQueryAttention of ``com.microsoft``: grouped heads, a key-value cache, rotary embedding, in one operator.

For each sequence of the batch, with ``total = seqlens_k + 1`` tokens after this step of which ``new`` are in the query:

    cache rows     0 ........ past ............. total .... capacity
                   | cached    | new              | unspecified
    query rows                  0 .............. new ...... seq
                                | valid           | padding, whose output is zeros
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.flash import Scoring, flash_attend
from onnxgen.graph.cpu.group_query_call import INPUTS, GroupQueryCall
from onnxgen.graph.cpu.group_query_options import GroupQueryOptions
from onnxgen.graph.cpu.group_query_steps import GroupQuerySteps
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.head_rows import FLOAT_TYPES, Angles, Move, move_heads
from onnxgen.graph.cpu.indexing import copy_into
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("GroupQueryAttention", 1, domain=MICROSOFT)
def group_query_attention(node: NodeSpec) -> Kernel:
    """Attends to past and new keys and appends the new ones to the cache, which may be one buffer in and out."""
    options = GroupQueryOptions.of(node)

    def called(inputs: tuple[np.ndarray | None, ...]) -> GroupQueryCall:
        given = dict(zip(INPUTS, (*inputs, *(None,) * (len(INPUTS) - len(inputs))), strict=True))
        return GroupQueryCall(node, options, given)

    def run(*inputs: np.ndarray | None) -> Any:
        call = called(inputs)
        present = [np.empty(call.cache_shape(part), call.cache_dtype) for part in ("key", "value")]
        output = np.empty((call.batch, call.seq, options.heads * call.value_dim), call.query.dtype)
        qk = _compute(call, output, *present)
        results = (output, *present, qk)
        wanted = tuple(
            r if node.wants_output(i) else None for i, r in enumerate(results[: len(node.outputs)])
        )
        return wanted if len(wanted) > 1 else output

    def into(*arrays: Any) -> None:
        count = len(node.outputs)
        output, present_key, present_value, *qk = arrays[-count:]
        found = _compute(called(arrays[:-count]), output, present_key, present_value)
        if qk:
            qk[0][...] = found

    # Without the caches as outputs they would have to be made for nothing: `run` does that.
    writes = into if len(node.outputs) > 2 else None
    return Kernel(run, writes, in_place=((1, 3), (2, 4)), checks_outputs=True)


def _compute(
    call: GroupQueryCall, output: np.ndarray, present_key: np.ndarray, present_value: np.ndarray
) -> np.ndarray | None:
    """Fill the output and the caches; the scores or weights where they are wanted."""
    for part, present in (("key", present_key), ("value", present_value)):
        if present.shape != call.cache_shape(part):
            raise KernelError(
                f"{call.node}: the present {part} cache has shape {present.shape}, {call.cache_shape(part)} is needed"
            )
    if not _fits_blocks(call):
        found, qk = GroupQuerySteps(call).compute(present_key, present_value)
        output[...] = found
        return qk
    for part, present in (("key", present_key), ("value", present_value)):
        _keep_past(call, present, call.given[f"past_{part}"])
    heads = call.options.kv_heads
    key_scale = call.codecs["key"].scales(heads, call.head_dim)
    value_scale = call.codecs["value"].scales(heads, call.value_dim)
    query = _append(call, present_key, present_value, key_scale, value_scale)
    sink, bias = call.sink(), call.bias()
    wide = output if output.dtype == np.float32 else np.empty(output.shape, np.float32)
    for index, new in enumerate(call.news):
        if new < call.seq:
            wide[index, new:] = 0
    options = call.options
    flash_attend(
        query,
        present_key,
        present_value,
        wide.reshape(call.batch, call.seq, options.heads, call.value_dim),
        Scoring(
            scale=call.scale,
            softcap=options.softcap,
            left=None if options.window is None else options.window - 1,
            right=0 if options.causal else None,
            sink=None if sink is None else np.ascontiguousarray(sink, np.float32),
            key_scale=key_scale,
            value_scale=value_scale,
        ),
        num_keys=call.totals,
        first_positions=call.pasts,
        num_queries=call.news,
        bias=None if bias is None else np.ascontiguousarray(bias, np.float32),
    )
    if wide is not output:
        converted(wide, output.dtype, output)
    return None


def _fits_blocks(call: GroupQueryCall) -> bool:
    """Whether compiled blocks can do it."""
    if call.options.windowed_cache or (call.options.qk_output and call.node.wants_output(3)):
        return False
    tables = (call.given["cos_cache"], call.given["sin_cache"]) if call.options.rotates else ()
    floats = (call.query, call.key, call.value, *(table for table in tables if table is not None))
    return all(x.dtype in FLOAT_TYPES for x in floats) and all(
        codec.is_compiled for codec in call.codecs.values()
    )


def _keep_past(call: GroupQueryCall, present: np.ndarray, past: np.ndarray | None) -> None:
    """Rows that were there stay; those beyond all tokens are zeros where the cache grows."""
    if past is not None:
        copy_into(present[:, :, : call.capacity], past)
    if present.shape[2] > call.capacity:
        for index, total in enumerate(call.totals):
            present[index, :, max(call.capacity, total) :] = 0


def _append(
    call: GroupQueryCall,
    present_key: np.ndarray,
    present_value: np.ndarray,
    key_scale: np.ndarray | None,
    value_scale: np.ndarray | None,
) -> np.ndarray:
    """Write the new rows of the caches; return the queries that attend, ``[batch, seq, heads, head_dim]`` float32."""
    angles, (q_weight, k_weight) = None, (call.norm_weight(part) for part in ("q", "k"))
    if call.options.rotates:
        cos, sin = map(np.ascontiguousarray, call.rotary_tables())
        angles = Angles(cos, sin, call.positions(), call.options.interleaved)
    query, moves = _rows(call.query), list[Move]()
    if angles is not None or q_weight is not None or query.dtype != np.float32:
        given, query = query, np.empty(query.shape, np.float32)
        moves.append(Move(given, query, weight=q_weight, epsilon=call.norm_epsilon("q"), angles=angles))
    if not call.reuses:
        places = call.places()
        moves += [
            Move(
                _rows(call.key),
                present_key.swapaxes(1, 2),
                places,
                weight=k_weight,
                epsilon=call.norm_epsilon("k"),
                angles=angles,
                scale=key_scale,
            ),
            Move(_rows(call.value), present_value.swapaxes(1, 2), places, scale=value_scale),
        ]
    if moves:
        move_heads(*moves)
    return query


def _rows(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)
