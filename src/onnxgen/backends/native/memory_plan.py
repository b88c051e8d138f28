"""Which buffers of a plan share memory: one whose last reader is done gives its place to one that begins.

Elementwise calls may write where they read, so that a chain of them stays in one place. The logits are nobody's
memory: they are written where the caller wants them, and so is whatever becomes them in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxgen.backends.native.plan import Buffer, Elements, Family, RowKind, StepPlan

_IN_PLACE = frozenset((Family.MAP, Family.ADD, Family.MULTIPLY))
_LINE = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A piece of memory that holds buffers one after the other.

    Attributes:
        rows: Which rows its buffers have.
        row_bytes: Bytes of a row of the widest one, whole cache lines.
    """

    rows: RowKind
    row_bytes: int


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Places of buffers.

    Attributes:
        places: Pieces of memory.
        place_of: Index of each buffer's place; buffers in ``given`` have none.
        given: Buffers that lie where the caller says, by the result they become: ``logits``, ``hidden_states``.
    """

    places: tuple[Place, ...]
    place_of: Mapping[str, int]
    given: Mapping[str, str]


def plan_memory(plan: StepPlan) -> MemoryPlan:
    """Give each buffer a place; no two that are alive at the same time have the same."""
    last_use = _last_uses(plan)
    given = _given(plan, last_use)
    sizes: list[tuple[RowKind, int]] = []
    free: list[int] = []
    place_of: dict[str, int] = {}
    for index, call in enumerate(plan.calls):
        for view in call.writes.values():
            name = view.buffer
            if name in place_of or name in given:
                continue
            buffer = plan.buffers[name]
            needed = row_bytes(buffer)
            source = call.reads["x"].buffer if call.family in _IN_PLACE else None
            same = source is not None and last_use[source] == index and source in place_of
            if same and source is not None and plan.buffers[source] == buffer:
                place_of[name] = place_of[source]
                last_use[source] = -1  # the place goes on; nobody frees it here
                continue
            fitting = [p for p in free if sizes[p][0] is buffer.rows]
            if fitting:
                chosen = min(fitting, key=lambda p: abs(sizes[p][1] - needed))
                free.remove(chosen)
                sizes[chosen] = (buffer.rows, max(sizes[chosen][1], needed))
            else:
                chosen = len(sizes)
                sizes.append((buffer.rows, needed))
            place_of[name] = chosen
        done = [n for n, last in last_use.items() if last == index and n in place_of]
        free += [place_of[name] for name in done]
    return MemoryPlan(tuple(Place(*size) for size in sizes), place_of, given)


def row_bytes(buffer: Buffer) -> int:
    """Bytes of a row: floats, or integers with a scale and a sum for each group."""
    if buffer.elements is Elements.FLOAT32:
        return _lines(4 * buffer.width)
    groups = -(-buffer.width // buffer.group)
    wide = 2 if buffer.elements is Elements.INT16 else 1
    return _lines(groups * buffer.group * wide) + 2 * _lines(4 * groups)


def integer_layout(buffer: Buffer) -> tuple[int, int]:
    """Bytes of a row's integers, and of its scales (its sums take as many)."""
    groups = -(-buffer.width // buffer.group)
    wide = 2 if buffer.elements is Elements.INT16 else 1
    return _lines(groups * buffer.group * wide), _lines(4 * groups)


def _lines(num_bytes: int) -> int:
    return -(-num_bytes // _LINE) * _LINE


def _last_uses(plan: StepPlan) -> dict[str, int]:
    last = dict[str, int]()
    for index, call in enumerate(plan.calls):
        for view in (*call.reads.values(), *call.writes.values()):
            last[view.buffer] = index
    for result in (plan.logits, plan.hidden_states):
        if result is not None:
            last[result.buffer] = len(plan.calls)
    return last


def _given(plan: StepPlan, last_use: Mapping[str, int]) -> dict[str, str]:
    given: dict[str, str] = {}
    for result, view in (("logits", plan.logits), ("hidden_states", plan.hidden_states)):
        if view is None:
            continue
        if view.offset or view.width != plan.buffers[view.buffer].width or view.buffer in given:
            continue  # columns of something larger, or two results in one: copied out
        name = view.buffer
        given[name] = result
        for index in range(len(plan.calls) - 1, -1, -1):
            call = plan.calls[index]
            if call.family not in _IN_PLACE or call.writes["y"].buffer != name:
                continue
            source = call.reads["x"].buffer
            if last_use[source] == index and plan.buffers[source] == plan.buffers[name]:
                given[source] = result
                name = source
    return given
