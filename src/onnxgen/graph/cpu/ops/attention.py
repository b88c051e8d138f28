"""Attention of the standard (opsets 23 to 25)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.attention import from_heads, grouped_matmul, softmax, to_heads
from onnxgen.graph.cpu.attention_blocks import attend_in_blocks
from onnxgen.graph.cpu.attention_mask import Mask, mask_of_input, window_of
from onnxgen.graph.cpu.half import computing_dtype, widened
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.stepwise import BFLOAT16, rounded, softmax_in_steps
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.types import numpy_dtype

TABLE = KernelTable()

_SCORES, _CAPPED, _MASKED, _WEIGHTS = range(4)  # as qk_matmul_output_mode counts the stages

_INPUTS = 7
_FLOAT32 = 1  # TensorProto.FLOAT


@TABLE.operator("Attention", 23, 24, 25, name="attention")
def make_attention(node: NodeSpec) -> Kernel:
    """Attention with grouped heads, masks, windows, a cache inside or outside, and any stage of it as an output."""
    in_steps = _attending(node)
    causal = bool(node.attr("is_causal", 0))
    left, right = (_bound(node, f"{side}_window_size") for side in ("left", "right"))
    nearest = min((bound for bound in (0 if causal else None, right) if bound is not None), default=None)
    blocks_serve = not node.wants_output(3) and node.attr("softmax_precision", _FLOAT32) == _FLOAT32
    num_outputs = len(node.outputs)

    def compute(inputs: tuple[Any, ...], y: Any, present_key: Any, present_value: Any) -> tuple[Any, ...]:
        """All outputs, in the arrays that are given."""
        given: tuple[Any, ...] = (*inputs, *(None,) * (_INPUTS - len(inputs)))
        q, k, v, mask, past_key, past_value, lengths = given
        queries, keys, values = _split(node, q, "q"), _split(node, k, "kv"), _split(node, v, "kv")
        seq, past = queries.shape[2], 0
        if past_key is not None and past_value is not None and lengths is None:
            past = past_key.shape[2]
            keys = np.concatenate((past_key, keys), 2, out=present_key)
            values = np.concatenate((past_value, values), 2, out=present_value)
        elif past_key is not None or past_value is not None:
            raise KernelError(
                f"{node}: past_key and past_value come together, and not beside nonpad_kv_seqlen"
            )
        if not keys.shape[1] or queries.shape[1] % keys.shape[1]:
            raise KernelError(
                f"{node}: {queries.shape[1]} query heads do not share {keys.shape[1]} key heads"
            )
        total = keys.shape[2]
        if y is None:
            y = np.empty((*q.shape[:-1], values.shape[3] * (queries.shape[1] if q.ndim == 3 else 1)), q.dtype)
        offset = past if lengths is None else lengths - seq
        stage = None
        if not blocks_serve or not attend_in_blocks(
            queries,
            keys,
            values,
            y if q.ndim == 4 else to_heads(y, queries.shape[1]),
            mask,
            scale=node.attr("scale"),
            softcap=node.attr("softcap", 0.0),
            left=left,
            right=nearest,
            num_keys=[total] * len(q) if lengths is None else np.clip(lengths, 0, total).reshape(-1).tolist(),
            first_positions=np.broadcast_to(offset, len(q)).tolist(),
        ):
            seen = Mask() if mask is None else mask_of_input(mask, total)
            seen = seen.restricted(window_of(seq, total, offset, causal=causal, left=left, right=right))
            if lengths is not None:
                seen = seen.restricted(np.arange(total) < lengths.reshape(-1, 1, 1, 1))
            output, stage = in_steps(queries, keys, values, seen)
            y[...] = output if q.ndim == 4 else from_heads(output)
        return y, keys, values, stage

    def run(*inputs: Any) -> Any:
        y, keys, values, stage = compute(inputs, None, None, None)
        if num_outputs == 1:
            return y
        new = len(inputs) < 6 or inputs[4] is None  # without a past, keys are the input's own
        cache = (
            (x.copy() if new else x) if node.wants_output(i) else None for i, x in ((1, keys), (2, values))
        )
        return (y, *cache, stage)[:num_outputs]

    def into(*arrays: Any) -> None:
        inputs, outputs = arrays[:-num_outputs], arrays[-num_outputs:]
        targets: tuple[Any, ...] = (*outputs, *(None,) * (4 - num_outputs))
        y, present_key, present_value, wanted = targets
        _, keys, values, stage = compute(inputs, y, present_key, present_value)
        for target, found in ((present_key, keys), (present_value, values), (wanted, stage)):
            if target is not None and found is not target:
                target[...] = found

    return Kernel(run, into)


def _attending(node: NodeSpec) -> Callable[..., tuple[np.ndarray, np.ndarray | None]]:
    """``f(q, k, v, mask)`` over (batch, heads, seq, head_dim): the output and the stage that is wanted."""
    softcap, scale_given = node.attr("softcap", 0.0), node.attr("scale")
    precision = node.attr("softmax_precision")
    softmax_dtype = None if precision is None else computing_dtype(numpy_dtype(ir.DataType(precision)))
    wanted = node.attr("qk_matmul_output_mode", 0) if node.wants_output(3) else None

    def attend(
        q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Mask
    ) -> tuple[np.ndarray, np.ndarray | None]:
        in_steps = q.dtype == BFLOAT16  # the standard's function, whose every step is of that type
        step = rounded if in_steps else np.asarray
        # both sides take the root of the scale, so that narrow scores do not overflow
        root = (q.shape[3] ** -0.5 if scale_given is None else scale_given) ** 0.5
        root = computing_dtype(q.dtype).type(q.dtype.type(root))
        stages: dict[int, np.ndarray] = {}
        queries, keys = step(widened(q) * root), step(widened(k) * root)
        scores = stages[_SCORES] = step(grouped_matmul(queries, keys.swapaxes(2, 3)))
        if softcap:
            scores = step(np.tanh(scores / scores.dtype.type(softcap)) * scores.dtype.type(softcap))
        stages[_CAPPED] = scores
        if mask.bias is not None:
            scores = step(scores + widened(mask.bias))
        if mask.allowed is not None:
            scores = np.where(mask.allowed, scores, scores.dtype.type(-np.inf))
        stages[_MASKED] = scores
        if in_steps and softmax_dtype is None and scores.size:
            weights = softmax_in_steps(scores.astype(BFLOAT16), -1).astype(np.float32)
        else:
            weights = softmax(scores if softmax_dtype is None else scores.astype(softmax_dtype))
        if mask.allowed is not None:
            weights = np.where(mask.allowed.any(-1, keepdims=True), weights, weights.dtype.type(0))
        weights = stages[_WEIGHTS] = step(weights.astype(scores.dtype, copy=False))
        output = grouped_matmul(weights, widened(v)).astype(q.dtype, copy=False)
        return output, None if wanted is None else stages[wanted].astype(q.dtype)

    return attend


def _bound(node: NodeSpec, name: str) -> int | None:
    size = node.attr(name, -1)
    if size < -1:
        raise KernelError(f"{node}: {name} is {size}; it must be -1 for no bound, or not negative")
    return None if size == -1 else size


def _split(node: NodeSpec, x: np.ndarray, side: str) -> np.ndarray:
    """The tensor as (batch, heads, seq, head_dim); one of three axes has its heads in the last."""
    if x.ndim == 4:
        return x
    heads = node.attr(f"{side}_num_heads")
    if not heads or x.ndim != 3 or x.shape[2] % heads:
        raise KernelError(f"{node}: shape {x.shape} does not split into {side}_num_heads={heads}")
    return to_heads(x, heads)
