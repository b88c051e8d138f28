"""LinearAttention over padded batches, as the standard and ``com.microsoft`` have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.delta_rule import unroll
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

Gates = Callable[[np.ndarray | None, np.ndarray | None], tuple[np.ndarray | None, np.ndarray | None]]

_INPUTS = 6
_FLOAT32 = np.dtype(np.float32)


def linear_attention_kernel(
    node: NodeSpec, *, heads: int, kv_heads: int, gates: Gates, window: int = 0
) -> Kernel:
    """The kernel of a node with inputs ``[batch, seq, heads * dim]`` and one state for each key head.

    Args:
        node: The node.
        heads: Of queries.
        kv_heads: Of keys and values.
        gates: What of the inputs decay and beta the rule uses, float32; raises where one is missing.
        window: With it the state is that after each of so many last tokens, ``[window, batch, ...]``.
    """
    scale, num_outputs = node.attr("scale", 0.0), len(node.outputs)

    def compute(inputs: tuple[Any, ...], output: np.ndarray | None, state: np.ndarray | None) -> Any:
        given: tuple[Any, ...] = (*inputs, *(None,) * (_INPUTS - len(inputs)))
        query, key, value, past, decay, beta = given
        (batch, seq, _), tokens = query.shape, query.shape[0] * query.shape[1]
        for x, count in ((query, heads), (key, kv_heads), (value, kv_heads)):
            if x.shape[:2] != (batch, seq) or x.shape[2] % count:
                raise KernelError(
                    f"{node}: shape {x.shape} is not that of {batch} x {seq} tokens of {count} heads"
                )
        q, k, v = (
            widened(x).reshape(tokens, count, x.shape[2] // count)
            for x, count in ((query, heads), (key, kv_heads), (value, kv_heads))
        )
        gate, rate = gates(decay, beta)
        before = np.zeros((batch, kv_heads, k.shape[2], v.shape[2]), np.float32)
        if past is not None:
            before = widened(past[-1] if window else past)
        direct = output is not None and output.dtype == _FLOAT32
        kept = state is not None and state.dtype == _FLOAT32 and not window
        found = unroll(
            *(before, q, k, v),
            range(0, tokens + 1, seq) if seq else [0] * (batch + 1),
            scale=scale or q.shape[2] ** -0.5,
            decay=None if gate is None else gate.reshape(tokens, kv_heads, -1),
            beta=None if rate is None else rate.reshape(tokens, -1),
            window=window,
            output=output.reshape(tokens, -1, v.shape[2]) if direct and output is not None else None,
            state=state if kept else None,
        )
        if window:
            found.states[-1] = found.state  # without tokens, too
        return found.output.reshape(batch, seq, -1), found.states if window else found.state

    def run(query: Any, key: Any, value: Any, past: Any = None, *more: Any) -> Any:
        output, state = compute((query, key, value, past, *more), None, None)
        output = output.astype(query.dtype, copy=False)
        if num_outputs == 1:
            return output
        return output, state.astype(query.dtype if past is None else past.dtype, copy=False)

    def into(*arrays: Any) -> None:
        outputs: tuple[Any, ...] = (*arrays[-num_outputs:], None)
        output, state = outputs[:2]
        found = compute(arrays[:-num_outputs], output, state)
        for target, value in zip((output, state), found, strict=True):
            if target is not None and not np.may_share_memory(target, value):
                target[...] = value

    return Kernel(run, into, in_place=((1, 3),) if num_outputs > 1 and not window else ())
