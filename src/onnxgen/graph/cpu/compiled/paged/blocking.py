"""How many rows and columns of sums the registers of a processor hold, and code for each number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from onnxgen.graph.cpu.compiled.paged.layout import GROUP_TOKENS
from onnxgen.graph.cpu.compiled.paged.numbers import TILE_KEYS
from onnxgen.graph.cpu.compiled.vectors import I64, INTS, every, load
from onnxgen.graph.cpu.isa import Isa


@dataclass(frozen=True, slots=True)
class Blocking:
    """Sums that are kept at once.

    Attributes:
        rows: The most rows of queries.
        vectors: Vectors of sixteen sums in each.
    """

    rows: int
    vectors: int


def blocking(isa: Isa) -> Blocking:
    """24 registers of sums where there are 32, 12 where there are 16."""
    if isa in (Isa.AVX512_VNNI, Isa.AVX512):
        return Blocking(rows=4, vectors=4)
    if isa in (Isa.AVX_VNNI, Isa.AVX2, Isa.NEON_DOTPROD):
        return Blocking(rows=3, vectors=2)
    return Blocking(rows=2, vectors=1)


def for_each_count(b: Any, count: Any, most: int, emit: Callable[[int], None]) -> None:
    """Emit code for 1 to ``most`` rows, and run that for ``count``, an i64; any other number runs ``most``."""
    done = b.append_basic_block("rows.done")
    last = b.append_basic_block("rows.most")
    switch = b.switch(count, last)
    for rows in range(1, most):
        case = b.append_basic_block(f"rows.{rows}")
        switch.add_case(I64(rows), case)
        b.position_at_end(case)
        emit(rows)
        b.branch(done)
    b.position_at_end(last)
    emit(most)
    b.branch(done)
    b.position_at_end(done)


def counted(b: Any, count: int, sums: list[Any], body: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """A loop ``count`` times over sums in registers.

    Args:
        b: A builder.
        count: At least 1.
        sums: Values before the first turn.
        body: From a turn's number and the sums to the next sums.
    """
    before, loop, after = (b.block, b.append_basic_block("turn"), b.append_basic_block("turned"))
    b.branch(loop)
    b.position_at_end(loop)
    turn = b.phi(I64)
    turn.add_incoming(I64(0), before)
    carried = [b.phi(value.type) for value in sums]
    for phi, value in zip(carried, sums, strict=True):
        phi.add_incoming(value, before)
    new = body(turn, carried)
    following = b.add(turn, I64(1))
    turn.add_incoming(following, b.block)
    for phi, value in zip(carried, new, strict=True):
        phi.add_incoming(value, b.block)
    back = b.cbranch(b.icmp_signed("<", following, I64(count)), loop, after)
    # A turn keeps the processor busy enough; unrolled, code would outgrow the first cache.
    back.set_metadata("llvm.loop", _not_unrolled(b.module))
    b.position_at_end(after)
    return new


def zeros(count: int) -> list[Any]:
    """That many sums of integers, all 0."""
    return [every(INTS, 0)] * count


def at(b: Any, base: Any, offset: Any) -> Any:
    """An address plus a number of bytes, an i64 or known."""
    return b.add(base, I64(offset) if isinstance(offset, int) else offset)


def times(b: Any, value: Any, factor: int) -> Any:
    """An i64 times a known number."""
    return b.mul(value, I64(factor))


def addresses(b: Any, place: Any) -> list[Any]:
    """The addresses of four groups of 16 tokens, which lie one after another."""
    return [load(b, at(b, place, 8 * group), I64) for group in range(TILE_KEYS // GROUP_TOKENS)]


def _not_unrolled(module: Any) -> Any:
    """Metadata of a loop that LLVM leaves as it is; it names itself first."""
    hint = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    loop = module.add_metadata([hint, hint])
    loop.operands = (loop, hint)
    return loop
