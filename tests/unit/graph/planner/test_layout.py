from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST
from onnxgen.graph.ir.types import TensorType, onnx_dtype
from onnxgen.graph.planner.layout import Buffer, Layout, Refuted, lay_out
from onnxgen.graph.planner.program import Call, NamedValue, Program

F32 = np.dtype(np.float32)


def nothing(*_: object) -> None: ...


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, dict[int, tuple[tuple[int, ...], np.dtype]]]:
    """Programs of kernels that claim anything a kernel may claim: views, in-place outputs, several outputs."""
    sizes = st.sampled_from([0, 1, 4, 16, 17, 100])
    shape_of = [(draw(sizes),) for _ in range(draw(st.integers(1, 3)))]
    num_inputs, calls = len(shape_of), []
    for _ in range(draw(st.integers(1, 14))):
        inputs = draw(st.lists(st.integers(0, len(shape_of) - 1), min_size=1, max_size=3))
        num_outputs = draw(st.integers(1, 2))
        outputs = tuple(range(len(shape_of), len(shape_of) + num_outputs))
        pairs = st.lists(
            st.tuples(st.integers(0, num_outputs - 1), st.integers(0, len(inputs) - 1)),
            max_size=2,
            unique=True,
        )
        is_view = draw(st.booleans())
        kernel = Kernel(
            nothing,
            None if draw(st.integers(0, 5)) == 0 else nothing,
            may_alias=tuple(draw(pairs)) if is_view else (),
            in_place=() if is_view else tuple(draw(pairs)),
        )
        spec = NodeSpec("", draw(st.sampled_from(["Reshape", "Add"])), 21, 21, {}, (), ())
        calls.append(Call(spec, kernel, "cpu", HOST, tuple(inputs), outputs))
        for _ in outputs:
            same = draw(st.booleans())
            shape_of.append(shape_of[inputs[0]] if same else (draw(sizes),))
    outputs = draw(st.lists(st.integers(0, len(shape_of) - 1), min_size=1, max_size=3))
    values = [NamedValue(f"n{i}", TensorType(onnx_dtype(F32), shape)) for i, shape in enumerate(shape_of)]
    program = Program("random", tuple(values), tuple(range(num_inputs)), {}, tuple(calls), tuple(outputs))
    return program.only(outputs), {i: (shape, F32) for i, shape in enumerate(shape_of)}


def reaches(program: Program, layout: Layout) -> list[set[int]]:
    """For each value the buffers whose bytes it may be; written without a look at the planner's own rule."""
    held: list[set[int]] = [set() for _ in program.values]
    for buffer in layout.buffers:
        held[buffer.value].add(buffer.value)
    for index, call in enumerate(program.calls):
        if index not in layout.written:
            for output, source in call.kernel.may_alias:
                held[call.outputs[output]] |= held[call.inputs[source]]
    return held


def simulate(program: Program, layout: Layout) -> None:
    """Execute the program on ownership instead of numbers: who wrote each slot last."""
    held = reaches(program, layout)
    buffers = {buffer.value: buffer for buffer in layout.buffers}
    owner: dict[int, int] = {}
    for index, call in enumerate(program.calls):
        for value in call.inputs:
            for source in held[value]:
                assert owner[buffers[source].slot] == source, f"call {index} reads {source}, overwritten"
        for position, value in enumerate(call.outputs):
            if value not in buffers:
                continue
            slot = buffers[value].slot
            read = {i for i, v in enumerate(call.inputs) for s in held[v] if buffers[s].slot == slot}
            allowed = {i for output, i in call.kernel.in_place if output == position}
            assert read <= allowed, f"call {index} writes slot {slot} while it reads it"
            owner[slot] = value
    for output in program.outputs:
        assert not held[output], f"output {output} is a view of the arena"


@settings(max_examples=150)
@given(programs(), st.booleans())
def test_no_two_live_buffers_overlap(case: tuple[Program, dict], reuse: bool) -> None:
    program, types = case
    layout = lay_out(program, types, refuted=Refuted(), reuse=reuse)
    layout.check_integrity()
    simulate(program, layout)
    if not reuse:
        assert len({buffer.slot for buffer in layout.buffers}) == len(layout.buffers)


@given(programs(), st.data())
def test_slots_hold_all_their_values_and_do_not_overlap(
    case: tuple[Program, dict], data: st.DataObject
) -> None:
    program, types = case
    layout = lay_out(program, types, refuted=Refuted())
    scale = data.draw(st.integers(0, 9))
    others = {value: ((size * scale,), dtype) for value, ((size,), dtype) in types.items()}
    offsets, total = layout.offsets(others)
    ends = [*offsets[1:], total]
    assert all(offset % 64 == 0 for offset in offsets)
    for buffer in layout.buffers:
        assert offsets[buffer.slot] + others[buffer.value][0][0] * 4 <= ends[buffer.slot]


def chain(*kernels: Kernel, op_type: str = "Relu", shape: tuple[int, ...] = (4,)) -> tuple[Program, dict]:
    values = [NamedValue(f"n{i}", TensorType(onnx_dtype(F32), shape)) for i in range(len(kernels) + 1)]
    spec = NodeSpec("", op_type, 21, 14, {}, (), ())
    calls = [Call(spec, kernel, "cpu", HOST, (i,), (i + 1,)) for i, kernel in enumerate(kernels)]
    program = Program("chain", tuple(values), (0,), {}, tuple(calls), (len(kernels),))
    return program, dict.fromkeys(range(len(values)), (shape, F32))


PLAIN = Kernel(nothing, nothing)
IN_PLACE = Kernel(nothing, nothing, in_place=((0, 0),))
VIEW = Kernel(nothing, may_alias=((0, 0),))


def test_a_chain_needs_two_slots_and_one_where_it_works_in_place() -> None:
    program, types = chain(*[PLAIN] * 6)
    assert lay_out(program, types, refuted=Refuted()).num_slots == 2
    program, types = chain(*[IN_PLACE] * 6)
    layout = lay_out(program, types, refuted=Refuted())
    assert layout.num_slots == 1
    assert [buffer.over for buffer in layout.buffers] == [None, 1, 2, 3, 4]


def test_nothing_that_an_output_may_be_a_view_of_lives_in_the_arena() -> None:
    program, types = chain(PLAIN, PLAIN, VIEW, op_type="Reshape")
    assert {buffer.value for buffer in lay_out(program, types, refuted=Refuted()).buffers} == {1}


def test_refuted_values_stay_on_the_heap() -> None:
    program, types = chain(PLAIN, PLAIN, PLAIN)
    layout = lay_out(program, types, refuted=Refuted(shapes={1}))
    assert {buffer.value for buffer in layout.buffers} == {2}


def test_refuted_in_place_outputs_get_memory_of_their_own() -> None:
    program, types = chain(IN_PLACE, IN_PLACE, IN_PLACE)
    layout = lay_out(program, types, refuted=Refuted(in_place={2}))
    assert {buffer.value: buffer.over for buffer in layout.buffers} == {1: None, 2: None}


def test_integrity_names_two_values_that_are_alive_together() -> None:
    program, _ = chain(PLAIN, PLAIN, PLAIN)
    layout = Layout(program, frozenset((0, 1)), frozenset(), (Buffer(1, 0, 0, 1), Buffer(2, 0, 1, 2)), (), 1)
    with pytest.raises(AssertionError, match="alive together"):
        layout.check_integrity()
