from __future__ import annotations

import onnx_ir as ir

from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST
from onnxgen.graph.ir.types import Shape, TensorType
from onnxgen.graph.planner.prediction import ShapePredictor
from onnxgen.graph.planner.program import Call, NamedValue, Program


def predictor(
    inputs: list[Shape | None], computed: list[Shape | None], untrusted: tuple[int, ...] = ()
) -> ShapePredictor:
    """Of a chain: each computed value depends on the one before."""
    shapes = [*inputs, *computed]
    values = tuple(NamedValue(f"n{i}", TensorType(ir.DataType.FLOAT, s)) for i, s in enumerate(shapes))
    kernel, spec = Kernel(lambda x: x), NodeSpec("", "Op", 1, 1, {}, (), ())
    first = len(inputs)
    calls = tuple(Call(spec, kernel, "cpu", HOST, (i - 1,), (i,)) for i in range(first, len(shapes)))
    program = Program("p", values, tuple(range(first)), {}, calls, (len(shapes) - 1,))
    return ShapePredictor(program, untrusted=untrusted)


def test_shapes_follow_from_the_symbols_of_inputs() -> None:
    found = predictor([("batch", "past"), ("batch", "seq")], [("batch", "past + seq"), (4, "batch*seq")])
    assert found.predict([(2, 5), (2, 3)]) == {2: (2, 8), 3: (4, 6)}


def test_symbols_that_no_input_has_predict_nothing() -> None:
    assert predictor([("N",)], [("M",), (None,), None, ("N",)]).predict([(3,)]) == {4: (3,)}


def test_a_name_that_means_two_sizes_predicts_nothing_at_all() -> None:
    assert predictor([("N",), ("N",)], [("N",)]).predict([(3,), (5,)]) is None


def test_inputs_of_another_rank_or_fixed_size_predict_nothing_at_all() -> None:
    assert predictor([("N", 4)], [("N",)]).predict([(3, 5)]) is None
    assert predictor([("N", 4)], [("N",)]).predict([(3,)]) is None


def test_an_unknown_rank_is_not_rank_0() -> None:
    assert predictor([None, ("N",)], [None, ("N",), ()]).predict([(7, 7), (2,)]) == {3: (2,), 4: ()}


def test_what_depends_on_an_untrusted_type_is_not_predicted() -> None:
    assert predictor([("N",)], [("N",), (5,), (5,)], untrusted=(2,)).predict([(3,)]) == {1: (3,)}


def test_expressions_of_symbols_of_an_outer_graph_are_symbols_of_their_own() -> None:
    found = predictor([("past + seq",)], [("past + seq", 2), ("2*past",)])
    assert found.predict([(7,)]) == {1: (7, 2)}


def test_an_input_that_contradicts_its_own_expression_predicts_nothing_at_all() -> None:
    found = predictor([("a",), ("b",), ("a + b",)], [("a + b",)])
    assert found.predict([(1,), (2,), (3,)]) == {3: (3,)}
    assert found.predict([(1,), (2,), (4,)]) is None


def test_names_that_are_no_identifiers() -> None:
    found = predictor([("batch size", "N/2")], [("batch size", "N/2")])
    assert found.predict([(2, 3)]) == {1: (2, 3)}
