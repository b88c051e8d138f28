"""Calls that adapters need as rows of a step's table."""

from __future__ import annotations

from dataclasses import replace

from onnxgen.backends.native.bind_rows import parts, rows_word
from onnxgen.backends.native.plan import Call, Family, RowKind
from onnxgen.backends.native.table_builder import TableBuilder
from onnxgen.backends.native.weights import Packed
from onnxgen.graph.cpu import lora
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.packed_blocks import PackedBlocks
from onnxgen.graph.cpu.packed_floats import PackedFloats
from onnxgen.graph.cpu.row_kernels import parts_of_elements


def bind_lora(builder: TableBuilder, call: Call) -> int:
    """Append a row that reads what adapters add; ``records``, where that is, comes later. Returns its number."""
    most, h = call.number("most"), call.writes.get("h") or call.reads["h"]
    word = Header.ADAPTERS if call.rows is RowKind.TOKENS else Header.WANTED_ADAPTERS
    common = {
        "rows": rows_word(call.rows), "adapters": int(word), "records": 0, "h": h, "h_stride": builder.floats_between(h),
    }  # fmt: skip
    if call.family is Family.LORA_DOWN:
        x = call.reads["x"]
        return builder.add(
            lora.down_kernel(), call, parts(call.rows, lambda n: lora.parts_of_down(n, x.width, most)),
            x=x, x_stride=builder.floats_between(x), width=x.width, most=most, **common,
        )  # fmt: skip
    y = call.writes["y"]
    return builder.add(
        lora.up_kernel(), call, parts(call.rows, lambda n: lora.parts_of_up(n, y.width, most)),
        y=y, y_stride=builder.floats_between(y), width=y.width, **common,
    )  # fmt: skip


def bind_gated_tiles(builder: TableBuilder, call: Call) -> None:
    """Append a row that gates what takes turns."""
    x, y = call.reads["x"], call.writes["y"]
    builder.add(
        lora.gated_tiles_kernel(call.text("function")), call,
        parts(call.rows, lambda n: parts_of_elements(n, y.width)), rows=rows_word(call.rows), width=y.width,
        x=x, x_stride=builder.floats_between(x), y=y, y_stride=builder.floats_between(y),
    )  # fmt: skip


def as_columns(weight: Packed) -> Packed:
    """A matrix whose columns are those of its tiles, one after the other, whether they are two that take turns or not."""
    if not isinstance(weight, PackedBlocks | PackedFloats) or not weight.interleaved:
        return weight
    tiles = -(-(weight.columns // 2) // lora.LANES)
    return replace(weight, interleaved=False, columns=2 * tiles * lora.LANES)
