"""Scan, against ONNX Runtime (which a scan over nothing kills, so that case is by hand)."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from graph_running import all_outputs, compiled, ort_outputs
from onnxgen.errors import KernelError

F = np.float32
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def body() -> onnx.GraphProto:
    """State and a slice of each input: their sum goes on, and its negative and its double are kept."""
    vector = [FLOAT, [3]]
    return helper.make_graph(
        [
            helper.make_node("Add", ["s", "a"], ["t"]),
            helper.make_node("Add", ["t", "b"], ["s2"]),
            helper.make_node("Neg", ["s2"], ["p"]),
            helper.make_node("Add", ["s2", "s2"], ["q"]),
        ],
        "body",
        [helper.make_tensor_value_info(name, *vector) for name in ("s", "a", "b")],
        [helper.make_tensor_value_info(name, *vector) for name in ("s2", "p", "q")],
    )


def scan_model(opset: int, inputs: list[str], ranks: dict[str, int], **attributes: object) -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node(
                "Scan", inputs, ["last", "p_all", "q_all"], body=body(), num_scan_inputs=2, **attributes
            )
        ],
        "g",
        [
            helper.make_tensor_value_info(
                n, INT64 if n == "lens" else FLOAT, [f"{n}{i}" for i in range(rank)]
            )
            for n, rank in ranks.items()
        ],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("last", "p_all", "q_all")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def same_as_ort(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> None:
    executable, want = compiled(model), ort_outputs(model, feeds)
    for _ in range(4):
        for got, expected in zip(all_outputs(executable, feeds), want, strict=True):
            np.testing.assert_array_equal(got, expected)


@settings(max_examples=25, deadline=None)
@given(
    steps=st.integers(1, 4),
    axes=st.tuples(st.sampled_from([0, 1, -1, -2]), st.sampled_from([0, 1])),
    out_axes=st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1, -1])),
    backward=st.tuples(*[st.integers(0, 1)] * 4),
    opset=st.sampled_from([11, 16, 21]),
)
def test_axes_and_directions(
    steps: int, axes: tuple[int, int], out_axes: tuple[int, int], backward: tuple[int, ...], opset: int
) -> None:
    rng = np.random.default_rng()
    a, b = (rng.integers(-5, 5, (steps, 3)).astype(F) for _ in range(2))
    feeds = {
        "s": rng.integers(-5, 5, 3).astype(F),
        "a": np.ascontiguousarray(np.moveaxis(a, 0, axes[0])),
        "b": np.ascontiguousarray(np.moveaxis(b, 0, axes[1])),
    }
    model = scan_model(
        opset,
        ["s", "a", "b"],
        {"s": 1, "a": 2, "b": 2},
        scan_input_axes=list(axes),
        scan_output_axes=list(out_axes),
        scan_input_directions=list(backward[:2]),
        scan_output_directions=list(backward[2:]),
    )
    same_as_ort(model, feeds)


def test_the_first_version_with_axes_has_the_same_defaults() -> None:
    rng = np.random.default_rng()
    feeds = {
        "s": np.zeros(3, F),
        "a": rng.normal(size=(4, 3)).astype(F),
        "b": rng.normal(size=(4, 3)).astype(F),
    }
    same_as_ort(scan_model(9, ["s", "a", "b"], {"s": 1, "a": 2, "b": 2}), feeds)


@pytest.mark.parametrize("lengths", [None, [4, 2], [1, 3]])
@pytest.mark.parametrize("directions", [None, [0, 1]])
def test_version_8_scans_each_row_of_a_batch_as_far_as_its_length(
    lengths: list[int] | None, directions: list[int] | None
) -> None:
    rng = np.random.default_rng()
    feeds = {
        "s": rng.integers(-5, 5, (2, 3)).astype(F),
        "a": rng.integers(-5, 5, (2, 4, 3)).astype(F),
        "b": rng.integers(-5, 5, (2, 4, 3)).astype(F),
    }
    ranks = {"s": 2, "a": 3, "b": 3}
    if lengths is not None:
        feeds["lens"] = np.array(lengths)
        ranks["lens"] = 1
    given_directions = {} if directions is None else {"directions": directions}
    model = scan_model(8, ["" if lengths is None else "lens", "s", "a", "b"], ranks, **given_directions)
    same_as_ort(model, feeds)


def test_a_row_of_length_0_keeps_its_state_and_has_zeros() -> None:
    feeds = {
        "lens": np.array([0, 2]),
        "s": np.ones((2, 3), F),
        "a": np.ones((2, 4, 3), F),
        "b": np.ones((2, 4, 3), F),
    }
    model = scan_model(8, ["lens", "s", "a", "b"], {"lens": 1, "s": 2, "a": 3, "b": 3})
    last, p_all, _ = all_outputs(compiled(model), feeds)
    np.testing.assert_array_equal(last[:, 0], [1, 5])
    np.testing.assert_array_equal(p_all[:, :, 0], [[0, 0, 0, 0], [-3, -5, 0, 0]])


def test_lengths_beyond_the_input_are_an_error() -> None:
    feeds = {
        "lens": np.array([5]),
        "s": np.ones((1, 3), F),
        "a": np.ones((1, 4, 3), F),
        "b": np.ones((1, 4, 3), F),
    }
    model = scan_model(8, ["lens", "s", "a", "b"], {"lens": 1, "s": 2, "a": 3, "b": 3})
    with pytest.raises(KernelError, match="from 0 to 4"):
        all_outputs(compiled(model), feeds)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scan_over_nothing_gives_its_states_and_empty_rows(axis: int) -> None:
    feeds = {"s": np.arange(3, dtype=F), "a": np.ones((0, 3), F), "b": np.ones((0, 3), F)}
    model = scan_model(11, ["s", "a", "b"], {"s": 1, "a": 2, "b": 2}, scan_output_axes=[axis, 0])
    last, p_all, q_all = all_outputs(compiled(model), feeds)
    np.testing.assert_array_equal(last, feeds["s"])
    assert p_all.shape == ((0, 3) if axis == 0 else (3, 0))
    assert (q_all.shape, q_all.dtype) == ((0, 3), F)


def test_inputs_of_different_lengths_are_an_error() -> None:
    feeds = {"s": np.zeros(3, F), "a": np.ones((4, 3), F), "b": np.ones((5, 3), F)}
    with pytest.raises(KernelError, match="Scan"):
        all_outputs(compiled(scan_model(11, ["s", "a", "b"], {"s": 1, "a": 2, "b": 2})), feeds)


def test_states_that_are_handed_on_are_the_callers_own() -> None:
    feeds = {"s": np.zeros(3, F), "a": np.ones((0, 3), F), "b": np.ones((0, 3), F)}
    executable = compiled(scan_model(11, ["s", "a", "b"], {"s": 1, "a": 2, "b": 2}))
    for _ in range(4):
        assert not np.may_share_memory(all_outputs(executable, feeds)[0], feeds["s"])
