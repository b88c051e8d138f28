"""A plan, its weights and its memory become the rows of a step's table: one function for each family of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxgen.backends.native.bind_attention import AttentionMemory
from onnxgen.backends.native.bind_lora import as_columns, bind_gated_tiles, bind_lora
from onnxgen.backends.native.bind_rows import parts, rows_word
from onnxgen.backends.native.plan import Call, Family, StepPlan, View
from onnxgen.backends.native.table_builder import TableBuilder
from onnxgen.backends.native.weights import Packed
from onnxgen.graph.cpu import row_kernels
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.isa import host_isa
from onnxgen.graph.cpu.packed_blocks import PackedBlocks
from onnxgen.graph.cpu.packed_floats import PackedFloats
from onnxgen.graph.cpu.row_kernels import parts_of_elements, parts_of_rows
from onnxgen.graph.cpu.step.kernel import step_kernel

FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        **{name: name for name in ("silu", "gelu", "gelu_tanh", "sigmoid", "tanh", "scale")},
        "swish": "quick_gelu",
        "softcap": "soft_cap",
    }
)
"""Names of functions in plans, and those of their kernels."""

_GROUP = 32


class Binding:
    """The table of a plan.

    Attributes:
        builder: The table, and the memory of buffers.
        attention: Memory that attention calls share, and their rows of the table.
        head_row: Rows of the table from here on make nothing but logits.
        embeddings: Where tokens' embeddings are once the rows before ``embedded_row`` ran; None where more than one
            call looks tokens up, so that no row could stand for a token.
        embedded_row: See ``embeddings``.
        adapter_rows: Rows of the table that read what adapters add, each with the number of its site.
    """

    def __init__(
        self,
        plan: StepPlan,
        weights: Mapping[str, Packed],
        *,
        most_tokens: int,
        context: int,
        threads: int,
        cache_bits: int,
    ) -> None:
        self.builder = TableBuilder(plan, weights, most_tokens=most_tokens)
        self.attention = AttentionMemory(
            plan, most_tokens=most_tokens, context=context, threads=threads, cache_bits=cache_bits
        )
        head = _first_of_head(plan)
        self.head_row = 0
        self.embeddings, self.embedded_row = plan.embeddings, 0
        self.adapter_rows: list[tuple[int, int]] = []
        for index, call in enumerate(plan.calls):
            if index == head:
                self.head_row = len(self.builder.table)
            if call.family is Family.ATTEND:
                self.attention.bind(self.builder, call)
            elif call.family in (Family.LORA_DOWN, Family.LORA_UP):
                self.adapter_rows.append((call.number("site"), bind_lora(self.builder, call)))
            else:
                _BINDERS[call.family](self.builder, call)
            if call.family is Family.EMBED and self.embeddings is not None:
                self.embedded_row = len(self.builder.table)
                _overwrite(self.builder, call)


def _first_of_head(plan: StepPlan) -> int:
    """The first call behind the hidden states and all caches."""
    hidden = None if plan.hidden_states is None else plan.hidden_states.buffer
    needed = (
        i
        for i, call in enumerate(plan.calls)
        if call.family is Family.ATTEND or any(view.buffer == hidden for view in call.writes.values())
    )
    return max(needed, default=-1) + 1


def _embed(builder: TableBuilder, call: Call) -> None:
    y, table = call.writes["y"], builder.weight(call, "table")
    if isinstance(table, PackedBlocks):
        builder.add(
            table.rows(), call, parts(call.rows, lambda n: parts_of_rows(n, y.width)), y=y,
            rows_word=rows_word(call.rows), ids_word=int(Header.TOKEN_IDS), y_stride=builder.arena.stride(y),
            multiplier=call.real("factor"), **table.rows_arguments(),
        )  # fmt: skip
        return
    assert isinstance(table, np.ndarray)
    name: Any = table.dtype.name
    builder.add(
        row_kernels.embed_kernel(name, host_isa()), call, parts(call.rows, lambda n: parts_of_rows(n, y.width)),
        width=y.width, factor=call.real("factor"), table=table.ctypes.data,
        table_stride=table.strides[0] // table.itemsize, y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _overwrite(builder: TableBuilder, call: Call) -> None:
    """Behind the embeddings of ids, those that a step gives itself."""
    y = call.writes["y"]
    builder.add(
        row_kernels.given_rows_kernel(), call,
        lambda shape: parts_of_rows(shape.given, y.width) if shape.given else 0,
        width=y.width, y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _given(builder: TableBuilder, call: Call) -> None:
    y, word = call.writes["y"], Header[call.text("input").upper()]
    builder.add(
        row_kernels.token_rows_kernel(), call, parts(call.rows, lambda n: parts_of_rows(n, y.width)),
        width=y.width, header_word=int(word), y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _join(builder: TableBuilder, call: Call) -> None:
    y, offset = call.writes["y"], 0
    for x in call.reads.values():
        part = View(y.buffer, y.offset + offset, x.width)
        builder.add(
            row_kernels.unary_kernel("scale"), call, parts(call.rows, lambda n, w=x.width: parts_of_elements(n, w)),
            rows=rows_word(call.rows), width=x.width, amount=1.0,
            x=x, x_stride=builder.floats_between(x), y=part, y_stride=builder.floats_between(part),
        )  # fmt: skip
        offset += x.width


def _norm(builder: TableBuilder, call: Call) -> None:
    x, y = call.reads["x"], call.writes.get("y")
    skip, total = call.reads.get("skip"), call.writes.get("sum")
    quantized, places = builder.integer_arguments(call)
    groups = call.number("groups")
    kernel = row_kernels.norm_kernel(
        centered=call.text("kind") == "layer", bias="bias" in call.weights, skip=skip is not None,
        skip_bias="skip_bias" in call.weights, **quantized,
    )  # fmt: skip
    builder.add(
        kernel, call, parts(call.rows, lambda n: parts_of_rows(n * groups, x.width // groups)),
        rows=rows_word(call.rows), pieces=groups, width=x.width // groups, epsilon=call.real("epsilon"),
        weight=builder.vector(call, "scale"), bias=builder.vector(call, "bias"),
        x=x, x_stride=builder.floats_between(x),
        y=0 if y is None else y, y_stride=0 if y is None else builder.floats_between(y),
        skip=0 if skip is None else skip, skip_stride=0 if skip is None else builder.floats_between(skip),
        skip_bias=builder.vector(call, "skip_bias"),
        sum=_sum_of(x, skip, total), sum_stride=builder.floats_between(total or skip or x), **places,
    )  # fmt: skip


def _sum_of(x: View, skip: View | None, total: View | None) -> View | int:
    """Where a norm writes its sum: the kernel always does, so an unwanted one replaces what nobody reads again."""
    assert skip is None or total is not None, "lowering gives every norm with a skip its sum"
    return 0 if total is None else total


def _product(builder: TableBuilder, call: Call) -> None:
    x, y, weight = call.reads["x"], call.writes["y"], builder.weight(call, "matrix")
    gate = call.text("epilogue") or None
    if gate is None:
        weight = as_columns(weight)
    common: dict[str, Any] = {
        "rows_word": rows_word(call.rows), "y": y, "bias": builder.vector(call, "bias"),
        "further": int("residual" in call.reads),
    }  # fmt: skip
    assert "residual" not in call.reads or call.reads["residual"] == y, "sums are made in place"
    if isinstance(weight, PackedFloats):
        builder.add(
            weight.product(gate), call, parts(call.rows, weight.parts), x=x, x_stride=builder.floats_between(x),
            y_stride=builder.floats_between(y), **common, **weight.product_arguments(),
        )  # fmt: skip
        return
    assert isinstance(weight, PackedBlocks)
    place = builder.arena.integers(x)
    builder.add(
        weight.product(gate), call, parts(call.rows, weight.parts), x=place.values, scales=place.scales,
        sums=place.sums, x_stride=place.stride, scale_stride=place.scale_stride,
        y_stride=builder.arena.stride(y), **common,
        **weight.product_arguments(),
    )  # fmt: skip


def _map(builder: TableBuilder, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    function: Any = FUNCTIONS[call.text("function")]
    builder.add(
        row_kernels.unary_kernel(function), call, parts(call.rows, lambda n: parts_of_elements(n, x.width)),
        rows=rows_word(call.rows), width=x.width, amount=call.real("amount"),
        x=x, x_stride=builder.floats_between(x), y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _binary(builder: TableBuilder, call: Call) -> None:
    x, y, other = call.reads["x"], call.writes["y"], call.reads.get("other")
    kernel = row_kernels.binary_kernel("add" if call.family is Family.ADD else "mul")
    builder.add(
        kernel, call, parts(call.rows, lambda n: parts_of_elements(n, x.width)), rows=rows_word(call.rows),
        width=x.width, x=x, x_stride=builder.floats_between(x),
        other=builder.vector(call, "other") if other is None else other,
        other_stride=0 if other is None else builder.floats_between(other),
        y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _gate(builder: TableBuilder, call: Call) -> None:
    gate, up, y = call.reads["gate"], call.reads["up"], call.writes.get("y")
    quantized, places = builder.integer_arguments(call)
    function: Any = FUNCTIONS[call.text("function")]
    builder.add(
        row_kernels.gated_kernel(function, **quantized), call,
        parts(call.rows, lambda n: parts_of_elements(n, gate.width)), rows=rows_word(call.rows),
        width=gate.width, amount=call.real("amount"), gate=gate, gate_stride=builder.floats_between(gate),
        up=up, up_stride=builder.floats_between(up), y=0 if y is None else y,
        y_stride=0 if y is None else builder.floats_between(y), **places,
    )  # fmt: skip


def _select(builder: TableBuilder, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    builder.add(
        row_kernels.wanted_rows_kernel(), call, parts(call.rows, lambda n: parts_of_rows(n, x.width)),
        width=x.width, x=x, x_stride=builder.floats_between(x), y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def _quantize(builder: TableBuilder, call: Call) -> None:
    x = call.reads["x"]
    quantized, places = builder.integer_arguments(call, "y")
    kernel = row_kernels.quantize_kernel(quantized["quantized"], quantized.get("group", _GROUP))
    builder.add(
        kernel, call, parts(call.rows, lambda n: parts_of_elements(n, x.width)), rows=rows_word(call.rows),
        width=x.width, x=x, x_stride=builder.floats_between(x), **places,
    )  # fmt: skip


def _pad(builder: TableBuilder, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    names = ("rows", "pieces", "x", "x_stride", "width", "y", "y_stride", "padded")
    builder.add(
        step_kernel("row_pads:pad_pieces", names), call, parts(call.rows, lambda n: parts_of_rows(n, x.width)),
        rows=rows_word(call.rows), pieces=call.number("heads"), width=call.number("width"),
        padded=call.number("padded"), x=x, x_stride=builder.floats_between(x), y=y,
        y_stride=builder.floats_between(y),
    )  # fmt: skip


_BINDERS: Mapping[Family, Callable[[TableBuilder, Call], None]] = MappingProxyType(
    {
        Family.EMBED: _embed,
        Family.GIVEN: _given,
        Family.JOIN: _join,
        Family.NORM: _norm,
        Family.PRODUCT: _product,
        Family.MAP: _map,
        Family.ADD: _binary,
        Family.MULTIPLY: _binary,
        Family.GATE: _gate,
        Family.SELECT: _select,
        Family.QUANTIZE: _quantize,
        Family.PAD: _pad,
        Family.GATE_TILES: bind_gated_tiles,
    }
)
