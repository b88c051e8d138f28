"""What a GroupQueryAttention node says, read once and checked."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ep.node import NodeSpec


@dataclass(frozen=True, slots=True)
class GroupQueryOptions:
    """The attributes of a node of ``com.microsoft.GroupQueryAttention``.

    Attributes:
        heads: Query heads, a multiple of ``kv_heads``.
        kv_heads: Heads of keys and values.
        scale: Factor of the scores; 0 for ``1 / sqrt(head_dim)``.
        softcap: Bound of the scores; 0 for none.
        window: How many keys, its own included, a query sees; None for all.
        causal: Whether later keys are hidden.
        rotates: Whether queries and keys are rotated by their positions.
        interleaved: Whether rotated pairs are neighbours.
        smooth: Whether each row's denominator has 1 more.
        windowed_cache: Whether the cache holds a window only, and drops what has left it.
        qk_output: What the fourth output has: 1 the scores, 2 the weights, 0 nothing.
    """

    heads: int
    kv_heads: int
    scale: float
    softcap: float
    window: int | None
    causal: bool
    rotates: bool
    interleaved: bool
    smooth: bool
    windowed_cache: bool
    qk_output: int

    @classmethod
    def of(cls, node: NodeSpec) -> GroupQueryOptions:
        """Read a node.

        Raises:
            InvalidGraphError: attributes contradict each other or the node's inputs and outputs.
        """
        window, causal = node.attr("local_window_size", -1), bool(node.attr("causal", 1))
        if not causal and window >= 0:
            raise InvalidGraphError(f"{node}: local_window_size {window} needs causal attention")
        if node.attr("sliding_window_cache", 0) and window <= 0:
            raise InvalidGraphError(
                f"{node}: sliding_window_cache needs local_window_size, which is {window}"
            )
        if node.wants_output(3) and node.attr("qk_output", 0) not in (1, 2):
            raise InvalidGraphError(f"{node}: its fourth output needs qk_output 1 or 2")
        if node.attr("sliding_window_cache", 0) and not node.has_input(3):
            raise InvalidGraphError(f"{node}: sliding_window_cache needs past_key and past_value")
        return cls(
            heads=node.attr("num_heads"),
            kv_heads=node.attr("kv_num_heads"),
            scale=node.attr("scale", 0.0),
            softcap=node.attr("softcap", 0.0),
            window=window if window >= 0 else None,
            causal=causal,
            rotates=bool(node.attr("do_rotary", 0)),
            interleaved=bool(node.attr("rotary_interleaved", 0)),
            smooth=node.attr("smooth_softmax", -1) == 1,
            windowed_cache=bool(node.attr("sliding_window_cache", 0)),
            qk_output=node.attr("qk_output", 0),
        )
