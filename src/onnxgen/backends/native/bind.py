"""A plan, its weights and its memory become the rows of a step's table: one function for each family of calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from onnxgen.backends.native.arena import Arena
from onnxgen.backends.native.bind_attention import AttentionMemory
from onnxgen.backends.native.plan import Call, Elements, Family, RowKind, StepPlan, View
from onnxgen.backends.native.weights import Packed
from onnxgen.graph.cpu import row_kernels
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.isa import host_isa
from onnxgen.graph.cpu.packed_blocks import PackedBlocks
from onnxgen.graph.cpu.packed_floats import PackedFloats
from onnxgen.graph.cpu.row_kernels import parts_of_elements, parts_of_rows
from onnxgen.graph.cpu.step.kernel import StepKernel, step_kernel
from onnxgen.graph.cpu.step.table import Parts, StepShape, StepTable

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
        table: Kernel calls in order.
        arena: Memory of buffers.
        attention: Memory that attention calls share, and their rows of the table.
    """

    def __init__(
        self, plan: StepPlan, weights: Mapping[str, Packed], *, most_tokens: int, context: int, threads: int
    ) -> None:
        self._plan, self._weights = plan, weights
        self.arena = Arena(plan, most_tokens=most_tokens)
        self.table = StepTable()
        self.attention = AttentionMemory(plan, most_tokens=most_tokens, context=context, threads=threads)
        self._given: dict[str, list[tuple[int, str, int]]] = {}
        for call in plan.calls:
            _BINDERS[call.family](self, call)

    def give(self, result: str, address: int) -> None:
        """Say where a result is to be written."""
        for row, argument, offset in self._given.get(result, ()):
            self.table.set(row, argument, address + offset)

    def add(self, kernel: StepKernel, call: Call, parts: Parts, **arguments: float | View) -> int:
        """Append a call; views become their addresses, those that the caller gives are noted."""
        views = {name: value for name, value in arguments.items() if isinstance(value, View)}
        plain: dict[str, Any] = {
            name: self.arena.address(value) if isinstance(value, View) else value
            for name, value in arguments.items()
        }
        row = self.table.add(kernel, call.nodes[-1] if call.nodes else "", parts=parts, **plain)
        for name, view in views.items():
            if view.buffer in self.arena.given:
                self._given.setdefault(self.arena.given[view.buffer], []).append(
                    (row, name, self.arena.address(view))
                )
        return row

    def floats_between(self, view: View) -> int:
        """Floats from row to row."""
        return self.arena.stride(view) // 4

    def vector(self, call: Call, role: str) -> int:
        """Address of a weight of floats; 0 where there is none."""
        if role not in call.weights:
            return 0
        array = self._weights[call.weights[role]]
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float32
        self.table.keep(array)
        return int(array.ctypes.data)

    def weight(self, call: Call, role: str) -> Packed:
        """A weight as it was packed."""
        weight = self._weights[call.weights[role]]
        self.table.keep(weight)
        return weight

    def integer_arguments(self, call: Call, role: str = "q") -> tuple[dict[str, Any], dict[str, int]]:
        """How a kernel writes integers: what it is compiled for, and where they go."""
        if role not in call.writes:
            return {}, dict.fromkeys(("q", "q_stride", "scale", "group_stride", "total"), 0)
        view = call.writes[role]
        buffer, place = self._plan.buffers[view.buffer], self.arena.integers(view)
        wide = 2 if buffer.elements is Elements.INT16 else 1
        return {"quantized": buffer.elements.value, "group": buffer.group}, {
            "q": place.values,
            "q_stride": place.stride // wide,
            "scale": place.scales,
            "group_stride": place.scale_stride // 4,
            "total": place.sums,
        }


def rows_word(rows: RowKind) -> int:
    """The word of the header that counts such rows."""
    return int(Header.TOKENS if rows is RowKind.TOKENS else Header.ROWS)


def parts(rows: RowKind, cut: Callable[[int], int]) -> Callable[[StepShape], int]:
    """Parts by the number of rows; none where there are none."""
    if rows is RowKind.TOKENS:
        return lambda shape: cut(shape.tokens)
    return lambda shape: cut(shape.rows) if shape.rows else 0


def _embed(binding: Binding, call: Call) -> None:
    y, table = call.writes["y"], binding.weight(call, "table")
    if isinstance(table, PackedBlocks):
        binding.add(
            table.rows(), call, parts(call.rows, lambda n: parts_of_rows(n, y.width)), y=y,
            rows_word=rows_word(call.rows), ids_word=int(Header.TOKEN_IDS), y_stride=binding.arena.stride(y),
            multiplier=call.real("factor"), **table.rows_arguments(),
        )  # fmt: skip
        return
    assert isinstance(table, np.ndarray)
    name: Any = table.dtype.name
    binding.add(
        row_kernels.embed_kernel(name, host_isa()), call, parts(call.rows, lambda n: parts_of_rows(n, y.width)),
        width=y.width, factor=call.real("factor"), table=table.ctypes.data,
        table_stride=table.strides[0] // table.itemsize, y=y, y_stride=binding.floats_between(y),
    )  # fmt: skip


def _norm(binding: Binding, call: Call) -> None:
    x, y = call.reads["x"], call.writes.get("y")
    skip, total = call.reads.get("skip"), call.writes.get("sum")
    quantized, places = binding.integer_arguments(call)
    groups = call.number("groups")
    kernel = row_kernels.norm_kernel(
        centered=call.text("kind") == "layer", bias="bias" in call.weights, skip=skip is not None,
        skip_bias="skip_bias" in call.weights, **quantized,
    )  # fmt: skip
    binding.add(
        kernel, call, parts(call.rows, lambda n: parts_of_rows(n * groups, x.width // groups)),
        rows=rows_word(call.rows), pieces=groups, width=x.width // groups, epsilon=call.real("epsilon"),
        weight=binding.vector(call, "scale"), bias=binding.vector(call, "bias"),
        x=x, x_stride=binding.floats_between(x),
        y=0 if y is None else y, y_stride=0 if y is None else binding.floats_between(y),
        skip=0 if skip is None else skip, skip_stride=0 if skip is None else binding.floats_between(skip),
        skip_bias=binding.vector(call, "skip_bias"),
        sum=_sum_of(x, skip, total), sum_stride=binding.floats_between(total or skip or x), **places,
    )  # fmt: skip


def _sum_of(x: View, skip: View | None, total: View | None) -> View | int:
    """Where a norm writes its sum: the kernel always does, so an unwanted one replaces what nobody reads again."""
    assert skip is None or total is not None, "lowering gives every norm with a skip its sum"
    return 0 if total is None else total


def _product(binding: Binding, call: Call) -> None:
    x, y, weight = call.reads["x"], call.writes["y"], binding.weight(call, "matrix")
    gate = call.text("epilogue") or None
    common: dict[str, Any] = {
        "rows_word": rows_word(call.rows), "y": y, "bias": binding.vector(call, "bias"),
        "further": int("residual" in call.reads),
    }  # fmt: skip
    assert "residual" not in call.reads or call.reads["residual"] == y, "sums are made in place"
    if isinstance(weight, PackedFloats):
        binding.add(
            weight.product(gate), call, parts(call.rows, weight.parts), x=x, x_stride=binding.floats_between(x),
            y_stride=binding.floats_between(y), **common, **weight.product_arguments(),
        )  # fmt: skip
        return
    assert isinstance(weight, PackedBlocks)
    place = binding.arena.integers(x)
    binding.add(
        weight.product(gate), call, parts(call.rows, weight.parts), x=place.values, scales=place.scales,
        sums=place.sums, x_stride=place.stride, scale_stride=place.scale_stride,
        y_stride=binding.arena.stride(y), **common,
        **weight.product_arguments(),
    )  # fmt: skip


def _map(binding: Binding, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    function: Any = FUNCTIONS[call.text("function")]
    binding.add(
        row_kernels.unary_kernel(function), call, parts(call.rows, lambda n: parts_of_elements(n, x.width)),
        rows=rows_word(call.rows), width=x.width, amount=call.real("amount"),
        x=x, x_stride=binding.floats_between(x), y=y, y_stride=binding.floats_between(y),
    )  # fmt: skip


def _binary(binding: Binding, call: Call) -> None:
    x, y, other = call.reads["x"], call.writes["y"], call.reads.get("other")
    kernel = row_kernels.binary_kernel("add" if call.family is Family.ADD else "mul")
    binding.add(
        kernel, call, parts(call.rows, lambda n: parts_of_elements(n, x.width)), rows=rows_word(call.rows),
        width=x.width, x=x, x_stride=binding.floats_between(x),
        other=binding.vector(call, "other") if other is None else other,
        other_stride=0 if other is None else binding.floats_between(other),
        y=y, y_stride=binding.floats_between(y),
    )  # fmt: skip


def _gate(binding: Binding, call: Call) -> None:
    gate, up, y = call.reads["gate"], call.reads["up"], call.writes.get("y")
    quantized, places = binding.integer_arguments(call)
    function: Any = FUNCTIONS[call.text("function")]
    binding.add(
        row_kernels.gated_kernel(function, **quantized), call,
        parts(call.rows, lambda n: parts_of_elements(n, gate.width)), rows=rows_word(call.rows),
        width=gate.width, amount=call.real("amount"), gate=gate, gate_stride=binding.floats_between(gate),
        up=up, up_stride=binding.floats_between(up), y=0 if y is None else y,
        y_stride=0 if y is None else binding.floats_between(y), **places,
    )  # fmt: skip


def _select(binding: Binding, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    binding.add(
        row_kernels.wanted_rows_kernel(), call, parts(call.rows, lambda n: parts_of_rows(n, x.width)),
        width=x.width, x=x, x_stride=binding.floats_between(x), y=y, y_stride=binding.floats_between(y),
    )  # fmt: skip


def _quantize(binding: Binding, call: Call) -> None:
    x = call.reads["x"]
    quantized, places = binding.integer_arguments(call, "y")
    kernel = row_kernels.quantize_kernel(quantized["quantized"], quantized.get("group", _GROUP))
    binding.add(
        kernel, call, parts(call.rows, lambda n: parts_of_elements(n, x.width)), rows=rows_word(call.rows),
        width=x.width, x=x, x_stride=binding.floats_between(x), **places,
    )  # fmt: skip


def _pad(binding: Binding, call: Call) -> None:
    x, y = call.reads["x"], call.writes["y"]
    names = ("rows", "pieces", "x", "x_stride", "width", "y", "y_stride", "padded")
    binding.add(
        step_kernel("row_pads:pad_pieces", names), call, parts(call.rows, lambda n: parts_of_rows(n, x.width)),
        rows=rows_word(call.rows), pieces=call.number("heads"), width=call.number("width"),
        padded=call.number("padded"), x=x, x_stride=binding.floats_between(x), y=y,
        y_stride=binding.floats_between(y),
    )  # fmt: skip


def _attend(binding: Binding, call: Call) -> None:
    binding.attention.bind(binding, call)


_BINDERS: Mapping[Family, Callable[[Binding, Call], None]] = MappingProxyType(
    {
        Family.EMBED: _embed,
        Family.NORM: _norm,
        Family.PRODUCT: _product,
        Family.MAP: _map,
        Family.ADD: _binary,
        Family.MULTIPLY: _binary,
        Family.GATE: _gate,
        Family.SELECT: _select,
        Family.QUANTIZE: _quantize,
        Family.PAD: _pad,
        Family.ATTEND: _attend,
    }
)
