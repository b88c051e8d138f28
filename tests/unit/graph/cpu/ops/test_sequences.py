from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

PARTS = [np.arange(3), np.arange(4), np.arange(0)]


def position(value):
    return np.array(value, np.int64)


def test_a_list_is_made_read_changed_and_measured():
    assert [len(part) for part in run_cpu("SequenceConstruct", *PARTS)] == [3, 4, 0]
    assert run_cpu("SequenceEmpty") == []
    assert run_cpu("SequenceAt", PARTS, position(-2)).tolist() == [0, 1, 2, 3]
    assert run_cpu("SequenceLength", PARTS) == 3


@pytest.mark.parametrize(("at", "place"), [(0, 0), (3, 3), (-1, 2), (-3, 0), (None, 3)])
def test_an_insertion_is_before_its_position(at, place):
    new = np.arange(7)
    inputs = [PARTS, new] if at is None else [PARTS, new, position(at)]
    got = run_cpu("SequenceInsert", *inputs)
    assert [len(part) for part in got] == [*[3, 4, 0][:place], 7, *[3, 4, 0][place:]]


@pytest.mark.parametrize(("at", "left"), [(0, [4, 0]), (-1, [3, 4]), (1, [3, 0]), (None, [3, 4])])
def test_an_erasure_leaves_the_others(at, left):
    inputs = [PARTS] if at is None else [PARTS, position(at)]
    assert [len(part) for part in run_cpu("SequenceErase", *inputs)] == left


@pytest.mark.parametrize(
    ("op_type", "inputs", "at"),
    [
        ("SequenceAt", (PARTS,), 3),
        ("SequenceAt", (PARTS,), -4),
        ("SequenceInsert", (PARTS, PARTS[0]), 4),
        ("SequenceErase", (PARTS,), 3),
    ],
)
def test_a_position_outside_names_the_bounds(op_type, inputs, at):
    kernel = kernel_of(node_spec(op_type, *inputs, position(at)))
    with pytest.raises(KernelError, match=f"position {at} is outside"):
        kernel.run(*inputs, position(at))


@pytest.mark.parametrize("split", [None, np.array(2), np.array(5), np.array([1, 0, 4])])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_a_tensor_is_split_as_the_runtime_splits_it(split, keepdims):
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    inputs = [x] if split is None else [x, split]
    got = run_cpu("SplitToSequence", *inputs, axis=1, keepdims=keepdims)
    if split is not None:
        keepdims = 1  # which the standard ignores then, and the runtime takes for an error
    want = run_ort("SplitToSequence", *inputs, axis=1, keepdims=keepdims, opset=11)
    assert [part.tolist() for part in got] == [part.tolist() for part in want]


def test_lengths_that_do_not_add_up_are_an_error():
    x, split = np.arange(5), np.array([2, 2])
    with pytest.raises(KernelError, match=r"\[2, 2\] do not make parts of 5"):
        kernel_of(node_spec("SplitToSequence", x, split)).run(x, split)


@pytest.mark.parametrize(("new_axis", "axis"), [(0, 0), (0, -1), (1, 0), (1, 2), (1, -1)])
def test_lists_are_joined_on_an_old_or_a_new_axis(new_axis, axis):
    parts = [np.full((2, 3), i) for i in range(3)]
    got = run_cpu("ConcatFromSequence", parts, axis=axis, new_axis=new_axis)
    assert got.tolist() == (np.stack(parts, axis) if new_axis else np.concatenate(parts, axis)).tolist()


def test_an_empty_list_has_nothing_to_join():
    with pytest.raises(KernelError, match="no tensors"):
        kernel_of(node_spec("ConcatFromSequence", PARTS, axis=0)).run([])


def test_an_optional_is_its_value_or_nothing():
    assert run_cpu("Optional", PARTS[0]).tolist() == [0, 1, 2]
    assert run_cpu("Optional") is None
    assert run_cpu("OptionalHasElement", PARTS[0])
    assert not run_cpu("OptionalHasElement", None)
    assert [len(part) for part in run_cpu("OptionalGetElement", PARTS)] == [3, 4, 0]
    with pytest.raises(KernelError, match="empty"):
        kernel_of(node_spec("OptionalGetElement", None)).run(None)
