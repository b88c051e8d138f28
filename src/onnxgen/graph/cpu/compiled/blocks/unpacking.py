"""Groups of a packed panel made ready for many rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.compiled.blocks.format import PANEL_TILES, BlockFormat
from onnxgen.graph.cpu.compiled.blocks.sources import PackedGroup, UnpackedGroup, operands
from onnxgen.graph.cpu.isa import Isa


def unpack_group(isa: Isa, form: BlockFormat, *, ahead: int) -> Callable[..., None]:
    """An intrinsic ``unpack(panel, group, target)``: a group of a packed panel to an address, as `sources` draws it.

    What lies ``ahead`` bytes further is asked for.
    """

    @intrinsic
    def unpack(_context: Any, panel: Any, group: Any, target: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            _emit(builder, isa, form, ahead, *arguments)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp, types.intp), generate

    return unpack


def _emit(b: Any, isa: Isa, form: BlockFormat, ahead: int, panel: Any, group: Any, target: Any) -> None:
    source = PackedGroup.at(b, isa, form, panel, group, v.I64(0), v.I64(ahead))
    made = UnpackedGroup(b, form, target)
    for tile in range(PANEL_TILES):
        v.store(b, source.scale(tile), made.scale_place(tile))
        zero = source.zero(tile)
        if zero is not None:
            v.store(b, zero, made.zero_place(tile))
        for vector in range(form.vectors):
            raw = source.raw(tile, vector)
            for field in range(form.fields):
                for part in range(operands(form)):
                    step = field * form.vectors + vector
                    v.store(b, source.field(raw, field, part), made.operand_place(tile, step, part))
