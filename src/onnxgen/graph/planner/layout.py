"""Where the values of a prepared run live."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from onnxgen.graph.ep.provider import HOST
from onnxgen.graph.planner.aliasing import origins
from onnxgen.graph.planner.program import Call, Program

ArrayType = tuple[tuple[int, ...], np.dtype]
"""Shape and element type of an array."""

VIEWS = frozenset(
    ("Cast", "CastLike", "Dropout", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")
)  # fmt: skip
"""Standard operators that decide by shapes and constants alone whether they return a view."""

ALIGNMENT = 64


@dataclass(slots=True)
class Refuted:
    """What observation has shown to be otherwise than planned; only grows.

    Attributes:
        shapes: Values whose shape was not the predicted one. They stay on the heap.
        views: Outputs that were expected to be views of a buffer and are not.
        in_place: Outputs that did not have the type of the input whose memory they would have taken over.
    """

    shapes: set[int] = field(default_factory=set[int])
    views: set[int] = field(default_factory=set[int])
    in_place: set[int] = field(default_factory=set[int])


@dataclass(frozen=True, slots=True)
class Buffer:
    """A value in the arena.

    Attributes:
        value: Its number.
        slot: The part of the arena that it shares with values of other times.
        first: The call that writes it.
        last: The last call that reads it, or a view of it.
        over: The value whose memory it takes over while that is read for the last time; None mostly.
    """

    value: int
    slot: int
    first: int
    last: int
    over: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """A placement of values in an arena, good for all sizes.

    Attributes:
        program: What is executed.
        written: Calls that write into memory they are given.
        views: Calls that are made once, when the arena is: their outputs are views of it.
        buffers: Values in the arena.
        given: Outputs that are written into the caller's memory.
        num_slots: How many slots the arena has.
    """

    program: Program
    written: frozenset[int]
    views: frozenset[int]
    buffers: tuple[Buffer, ...]
    given: tuple[int, ...]
    num_slots: int

    def offsets(self, types: Mapping[int, ArrayType]) -> tuple[list[int], int]:
        """Where each slot begins for values of these types, and the arena's size, in bytes."""
        sizes = [0] * self.num_slots
        for buffer in self.buffers:
            sizes[buffer.slot] = max(sizes[buffer.slot], num_bytes(types[buffer.value]))
        offsets, total = list[int](), 0
        for size in sizes:
            offsets.append(total)
            total += -(-size // ALIGNMENT) * ALIGNMENT
        return offsets, total

    def check_integrity(self) -> None:
        """Assert that no two values share memory while both are alive."""
        found = origins(self.program, written=self.written)
        buffers = {buffer.value: buffer for buffer in self.buffers}
        for index, call in enumerate(self.program.calls):
            for value in filter(None, map(buffers.get, _origins_of(call, found))):
                assert value.first <= index <= value.last, f"call {index} uses {value}, dead by then"
        for output in self.program.outputs:
            held = found[output] & buffers.keys()
            assert not held or output in self.given, f"output {output} would be a view of buffers {held}"
        for slot in range(self.num_slots):
            members = sorted((b for b in self.buffers if b.slot == slot), key=lambda b: (b.first, b.last))
            for before, after in pairwise(members):
                if before.last < after.first:
                    continue
                assert after.over == before.value and before.last == after.first, (
                    f"slot {slot}: {before} and {after} are alive together"
                )
                call = self.program.calls[after.first]
                assert _may_take_over(call, before.value, call.outputs.index(after.value), found)


def num_bytes(kind: ArrayType) -> int:
    """Bytes of the elements of an array of that type."""
    shape, dtype = kind
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def lay_out(
    program: Program,
    types: Mapping[int, ArrayType],
    *,
    refuted: Refuted,
    given: Collection[int] = (),
    reuse: bool = True,
) -> Layout:
    """Choose for each value where it lives.

    Args:
        program: Only what its outputs need.
        types: Types of the values that may live in the arena, for one set of input shapes: they guide the choice,
            which holds for others, too.
        refuted: What observation has shown.
        given: Outputs that shall be written into the caller's memory where that can be done without a copy.
        reuse: Whether values may share memory with values of other times.
    """
    written, given = _written(program, types, refuted, given)
    found = origins(program, written=written)
    planned = {v for i in written for v in program.calls[i].outputs if v not in given}
    views = _views(program, found, planned, refuted)
    last = _last_uses(program, found)
    slots = _Slots(types)
    buffers: dict[int, Buffer] = {}
    for index in sorted(written):
        call = program.calls[index]
        if reuse:
            slots.release(before=index)
        taken: set[int] = set()
        for position, value in enumerate(call.outputs):
            if value not in planned:
                continue
            over = None
            if reuse and value not in refuted.in_place:
                dying = {v for v in call.inputs if v in buffers and last[v] == index} - taken
                over = _taken_over(call, position, dying, found, types)
            if over is not None:
                taken.add(over)
            slot = slots.take(value, last[value], None if over is None else buffers[over].slot)
            buffers[value] = Buffer(value, slot, index, last[value], over)
    return Layout(program, frozenset(written), views, tuple(buffers.values()), given, len(slots.sizes))


def _written(
    program: Program, types: Mapping[int, ArrayType], refuted: Refuted, given: Collection[int]
) -> tuple[set[int], tuple[int, ...]]:
    """Calls that write into given memory, and the outputs that they write into the caller's."""
    known = {v for v, (_, dtype) in types.items() if v not in refuted.shapes and dtype != object}
    written = {i for i, call in enumerate(program.calls) if _can_write(program, call, known, refuted)}
    while True:
        found = origins(program, written=written)
        direct = {v for i in written for v in program.calls[i].outputs if v in given}
        kept = frozenset[int]().union(*(found[value] for value in program.outputs if value not in direct))
        lent = {i for i in written if any(v in kept and v not in direct for v in program.calls[i].outputs)}
        if not lent:
            return written, tuple(sorted(direct))
        written -= lent


def _can_write(program: Program, call: Call, known: set[int], refuted: Refuted) -> bool:
    copies = not call.kernel.may_alias or not refuted.views.isdisjoint(call.outputs)
    return (
        call.kernel.into is not None
        and not call.takes_run
        and call.device == HOST
        and copies
        and all(value in known and program.values[value].name for value in call.outputs)
    )


def _views(
    program: Program, found: list[frozenset[int]], planned: set[int], refuted: Refuted
) -> frozenset[int]:
    fixed, views = set(planned), set[int]()
    for index, call in enumerate(program.calls):
        varying = [i for i, v in enumerate(call.inputs) if v is not None and v not in program.constants]
        if (
            call.spec.domain == ""
            and call.spec.op_type in VIEWS
            and len(varying) == 1
            and call.inputs[varying[0]] in fixed
            and all(
                (position, varying[0]) in call.kernel.may_alias
                and found[output] & planned
                and output not in planned
                and output not in refuted.views
                for position, output in enumerate(call.outputs)
            )
        ):
            views.add(index)
            fixed.update(call.outputs)
    return frozenset(views)


def _last_uses(program: Program, found: list[frozenset[int]]) -> dict[int, int]:
    last: dict[int, int] = {}
    for index, call in enumerate(program.calls):
        for value in _origins_of(call, found):
            last[value] = index
    return last


def _origins_of(call: Call, found: list[frozenset[int]]) -> Iterator[int]:
    for value in (*call.inputs, *call.outputs):
        if value is not None:
            yield from found[value]


def _taken_over(
    call: Call,
    position: int,
    dying: Collection[int],
    found: list[frozenset[int]],
    types: Mapping[int, ArrayType],
) -> int | None:
    """Which of the buffers that the call is the last to use the output may be written over."""
    output = call.outputs[position]
    for out, i in call.kernel.in_place:
        value = call.inputs[i] if out == position and i < len(call.inputs) else None
        if (
            value is not None
            and value in dying
            and types[value] == types[output]
            and _may_take_over(call, value, position, found)
        ):
            return value
    return None


def _may_take_over(call: Call, value: int, position: int, found: list[frozenset[int]]) -> bool:
    """Whether the output may be written where ``value`` is: each input that is that memory is one the kernel allows."""
    allowed = {i for out, i in call.kernel.in_place if out == position}
    holders = {i for i, given in enumerate(call.inputs) if given is not None and value in found[given]}
    return holders <= allowed and all(call.inputs[i] == value for i in holders)


class _Slots:
    """Free memory, reused best fit first."""

    def __init__(self, types: Mapping[int, ArrayType]) -> None:
        self.sizes: list[int] = []
        self._types = types
        self._free: set[int] = set()
        self._until: dict[int, int] = {}

    def release(self, *, before: int) -> None:
        for slot in [slot for slot, last in self._until.items() if last < before]:
            del self._until[slot]
            self._free.add(slot)

    def take(self, value: int, last: int, over: int | None) -> int:
        need = num_bytes(self._types[value])
        slot = over if over is not None else self._fitting(need)
        self._free.discard(slot)
        self.sizes[slot] = max(self.sizes[slot], need)
        self._until[slot] = last
        return slot

    def _fitting(self, need: int) -> int:
        if not self._free:
            self.sizes.append(need)
            return len(self.sizes) - 1
        return min(self._free, key=lambda slot: (self.sizes[slot] < need, abs(self.sizes[slot] - need)))
