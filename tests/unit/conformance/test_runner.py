import numpy as np
import onnx.parser

from onnxgen.conformance.cases import Case, load_cases
from onnxgen.conformance.runner import run_group

ADD = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
)
BERNOULLI = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Bernoulli(x) }'
)


def case(name, model, expected):
    data = (((np.float32([1, 2]),), (np.float32(expected),)),)
    return Case(name, "node", model, data, 1e-3, 1e-6)


class Doubler:
    claimed_by_cpu = True

    def __init__(self, failing=0):
        self.failing = failing

    def run(self, feeds):
        self.failing -= 1
        if self.failing == 0:
            raise RuntimeError("this run fails")
        return [feeds["x"] * 2]


def test_right_wrong_and_random_outputs_are_told_apart():
    cases = [
        case("test_right", ADD, [2, 4]),
        case("test_wrong", ADD, [2, 5]),
        case("test_random", BERNOULLI, [0, 1]),
    ]
    result = run_group("node", cases, lambda _: Doubler())
    assert result.passed == ["test_right"]
    assert list(result.failed) == ["test_wrong"]
    assert "random stream" in result.excluded["test_random"]
    assert result.as_json() == {
        "total": 3,
        "passed": 1,
        "failed": ["test_wrong"],
        "excluded": result.excluded,
        "claimed_by_cpu": 3,
    }


def test_every_repeat_is_judged():
    result = run_group("node", [case("test_right", ADD, [2, 4])], lambda _: Doubler(failing=3), repeats=3)
    assert result.failed == {"test_right": "RuntimeError: this run fails"}


def test_a_random_test_of_the_wrong_shape_fails():
    result = run_group("node", [case("test_random", BERNOULLI, [0, 1, 1])], lambda _: Doubler())
    assert "shape" in result.failed["test_random"]


def test_a_model_that_does_not_load_is_a_failure():
    def refuse(_):
        raise ValueError("not this one")

    assert run_group("node", [case("test_right", ADD, [2, 4])], refuse).failed == {
        "test_right": "ValueError: not this one"
    }


def test_the_installed_onnx_brings_simple_cases_with_data():
    cases = list(load_cases("simple"))
    assert len(cases) > 10
    assert all(case.data_sets for case in cases)
    assert all(len(inputs) == len(case.input_names) for case in cases for inputs, _ in case.data_sets)
