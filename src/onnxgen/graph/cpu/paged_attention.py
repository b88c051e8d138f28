"""Attention of a native step, as its tables call it: the three kernels, their arguments, and the buffers they need.

    write_keys_values   rows of q | k | v   ->  queries, pages of this step's tokens
    plan_attention      the step's lengths  ->  work items; once for all layers with the same window
    attend              queries, pages      ->  rows of heads

A table calls ``plan_attention`` once, and the others once a layer, in this order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from onnxgen.errors import OptionError
from onnxgen.graph.cpu.compiled.paged import arguments
from onnxgen.graph.cpu.compiled.paged.items import ITEM_BYTES, MOST_ROWS
from onnxgen.graph.cpu.compiled.paged.numbers import mixed_dims
from onnxgen.graph.cpu.isa import host_isa
from onnxgen.graph.cpu.key_value_pages import KeyValuePages
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel

MOST_GROUP = 32
NO_WINDOW = 1 << 40
"""A window that no sequence fills."""

PARTIAL_STATE_BYTES = 64


class Rotation(Enum):
    """Which dimensions of a head turn together."""

    HALVES = "halves"
    NEIGHBOURS = "neighbours"


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """Attention of one layer, or of all layers that are alike.

    Attributes:
        heads: Query heads, a multiple of ``kv_heads``; at most 32 for each.
        kv_heads: Heads of keys and values.
        head_dim: Dimensions of queries and keys, a multiple of 16 from 32 to 256.
        value_dim: Dimensions of values, likewise.
        scale: Factor of scores; None for ``1 / sqrt(head_dim)``.
        window: How many keys, its own included, a query sees; None for all.
        softcap: Bound of scores; None for none.
        norm: Whether queries and keys are divided by their root mean square, head by head, and weighted.
        rotary_dim: Leading dimensions that are rotated, even; 0 for none.
        rotation: How they pair.
        bits: Of each number of keys and values in pages, 16 or 8.

    Raises:
        OptionError: sizes that these kernels do not have.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    norm: bool = False
    rotary_dim: int = 0
    rotation: Rotation = Rotation.HALVES
    bits: int = 16

    def __post_init__(self) -> None:
        self.pages(block_size=16)
        if self.heads % self.kv_heads or not 1 <= self.group <= MOST_GROUP:
            raise OptionError(
                f"paged attention was asked for {self.heads} heads over {self.kv_heads} of keys; it has "
                f"1 to {MOST_GROUP} for each"
            )
        if self.rotary_dim % 2 or not 0 <= self.rotary_dim <= self.head_dim:
            raise OptionError(
                f"asked to rotate {self.rotary_dim} of {self.head_dim} dimensions; an even number up to all can be"
            )
        if self.window is not None and self.window < 1:
            raise OptionError(f"asked for a window of {self.window} keys; a query sees at least its own")
        if self.softcap is not None and not self.softcap > 0:
            raise OptionError(f"asked for a softcap of {self.softcap}; it is above 0")

    @property
    def group(self) -> int:
        """Query heads that share a head of keys."""
        return self.heads // self.kv_heads

    def pages(self, *, block_size: int) -> KeyValuePages:
        """The layout of a layer's blocks."""
        return KeyValuePages(self.kv_heads, self.head_dim, self.value_dim, block_size, self.bits)

    def write_kernel(self) -> StepKernel:
        """Norms, rotates and rounds; any number of parts up to tokens times ``kv_heads`` is useful.

        Arguments beside `constants`:
            rows: float32, a row a token; queries, keys and values of all heads begin in it at ``query_column``,
                ``key_column``, ``value_column`` (in floats).
            row_bytes: From one row to the next.
            query_norm, key_norm: float32 ``[head_dim]`` weights; read only with ``norm``, as is ``epsilon``, a float.
            cos, sin: float32 ``[positions, rotary_dim / 2]``, read at the step's positions; only with ``rotary_dim``.
            queries: int16 ``[kv_heads, tokens, group, head_dim]``, written.
            query_scales: float32 ``[kv_heads, tokens, group]``, written.
            pages: A layer's blocks, `KeyValuePages`; those of the step's slots are written.
            block_bytes: From one block of the layer to the next.
            slots_word: `Header.SLOTS` or `Header.WINDOW_SLOTS`.
        """
        return step_kernel(
            "paged.writing:write_keys_values",
            arguments.WRITE,
            isa=host_isa().value,
            head_dim=self.head_dim,
            value_dim=self.value_dim,
            bits=self.bits,
            norm=self.norm,
            rotary_dim=self.rotary_dim,
            interleaved=self.rotary_dim > 0 and self.rotation is Rotation.NEIGHBOURS,
        )

    def write_constants(self) -> dict[str, float]:
        """Arguments of `write_kernel` that follow from this description."""
        scale = self.scale if self.scale is not None else 1 / math.sqrt(self.head_dim)
        unit = math.log2(math.e) if self.softcap is None else 1 / self.softcap
        unit /= mixed_dims(self.head_dim, self.bits)
        return {"kv_heads": self.kv_heads, "group": self.group, "scale": scale * unit}

    def plan_kernel(self) -> StepKernel:
        """Cuts a step into items; one part.

        Arguments beside `plan_constants`:
            items: Memory of `items_bytes`.
            most_items, most_partials: What was given to `items_bytes` and `partials_bytes`.
            workers: Threads that the step runs on.
        """
        return step_kernel("paged.planning:plan", arguments.PLAN)

    def plan_constants(self) -> dict[str, float]:
        """Arguments of `plan_kernel` that follow from this description."""
        return {"kv_heads": self.kv_heads, "group": self.group, "window": self.window or NO_WINDOW}

    def attend_kernel(self) -> StepKernel:
        """Attends; a part does every ``parts``-th item, costliest first.

        Arguments beside `attend_constants`:
            queries, query_scales, pages, block_bytes: As of `write_kernel`.
            table_word: `Header.BLOCK_TABLE` or `Header.WINDOW_TABLE`, of the slots that were written.
            out: float32 rows ``[heads, value_dim]``, written; ``out_stride`` bytes apart.
            sinks: float32 ``[heads]``, scores of something without a value; 0 for none.
            items: As of `plan_kernel`, whose window must be this one's.
            partials: Memory of `partials_bytes`.
        """
        return step_kernel(
            "paged.attending:attend",
            arguments.ATTEND,
            isa=host_isa().value,
            head_dim=self.head_dim,
            value_dim=self.value_dim,
            bits=self.bits,
            softcap=self.softcap is not None,
        )

    def attend_constants(self) -> dict[str, float]:
        """Arguments of `attend_kernel` that follow from this description."""
        return {**self.plan_constants(), "softcap": float(self.softcap or 0)}

    def query_bytes(self, tokens: int) -> int:
        """Memory of ``queries`` for a step of so many tokens."""
        return 2 * tokens * self.heads * self.head_dim

    def query_scale_bytes(self, tokens: int) -> int:
        """Memory of ``query_scales``."""
        return 4 * tokens * self.heads

    def most_items(self, tokens: int, seqs: int, workers: int) -> int:
        """Items that are enough for any step of so many tokens and sequences."""
        tokens_of_item = max(MOST_ROWS // self.group, 1)
        return self.kv_heads * (tokens // tokens_of_item + seqs) + 16 * workers

    @staticmethod
    def items_bytes(most_items: int) -> int:
        """Memory of ``items``, from the beginning of a cache line, zeros before the first step."""
        return (1 + most_items) * ITEM_BYTES + 8 * most_items

    def partials_bytes(self, most_partials: int) -> int:
        """Memory of ``partials`` for so many rows of splits: decoding a sequence alone has ``heads`` for every 256 tokens."""
        return most_partials * (4 * self.value_dim + PARTIAL_STATE_BYTES)
