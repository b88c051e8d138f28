"""Shape inference over the models of the ONNX backend tests, with every input's dimensions made symbols."""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.loader import load_model_tests

from onnxgen.graph.ir.attributes import tensor_array
from onnxgen.graph.shapes import infer_shapes
from shape_checks import check, make_symbolic

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
MOST_CONSTANT_ELEMENTS = 64
# half of the simple models drop strings, which only the run can count
LEAST_SHARE = {(kind, constants): 0.9 for kind in KINDS for constants in (False, True)}
LEAST_SHARE |= {("node", False): 0.75, ("simple", False): 0.25, ("simple", True): 0.4}


@cache
def cases(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind=kind)


def values_of(case):
    """Inputs and outputs of the first data set as arrays; other kinds of values as they are."""
    if case.data_sets is not None:
        return [[as_array(value) for value in values] for values in case.data_sets[0]]
    folder = Path(case.model_dir) / "test_data_set_0"
    return [
        [read_tensor(folder / f"{what}_{at}.pb") for at in range(len(list(folder.glob(f"{what}_*.pb"))))]
        for what in ("input", "output")
    ]


def read_tensor(path):
    return as_array(onnx.TensorProto.FromString(path.read_bytes()))


def as_array(value):
    return tensor_array(ir.from_proto(value)) if isinstance(value, onnx.TensorProto) else value


def infer(case, *, constants):
    """Infer a test's model; ``constants`` makes small inputs after the first initializers.

    Returns:
        Pairs of graph outputs and expected values, what the symbols stand for, and the report.
    """
    model = ir.from_proto(case.model or onnx.load(Path(case.model_dir) / "model.onnx"))
    inputs, outputs = values_of(case)
    fed = [value for value in model.graph.inputs if value.name not in model.graph.initializers]
    fed = fed if len(fed) >= len(inputs) else list(model.graph.inputs)
    pairs = list(zip(fed, inputs, strict=False))
    for value, array in pairs[1:] if constants else ():
        if (
            isinstance(array, np.ndarray)
            and array.dtype.kind in "iufb"
            and array.size < MOST_CONSTANT_ELEMENTS
        ):
            if value.name in model.graph.initializers:
                continue
            value.const_value = ir.Tensor(array, name=value.name)
            model.graph.inputs.remove(value)
            model.graph.register_initializer(value)
    left = [(value, array) for value, array in pairs if value.is_graph_input()]
    sizes = make_symbolic([value for value, _ in left], [array for _, array in left])
    for value in model.graph.outputs:
        value.type, value.shape = None, None
    report = infer_shapes(model)
    return list(zip(model.graph.outputs, outputs, strict=False)), sizes, report


@pytest.mark.parametrize("constants", [False, True], ids=["inputs", "constants"])
@pytest.mark.parametrize("kind", KINDS)
def test_inferred_types_fit_what_comes_out(kind, constants):
    wrong, known, total = [], 0, 0
    for case in cases(kind):
        try:
            pairs, sizes, report = infer(case, constants=constants)
            wrong += [f"{case.name}: {failure}" for failure in report.failures]
            for value, array in pairs:
                if isinstance(array, np.ndarray):
                    total += 1
                    known += check(value, array, sizes)
        except Exception as error:  # noqa: BLE001 - collected, so that one run shows all
            wrong.append(f"{case.name}: {type(error).__name__}: {error}")
    print(f"{kind}: {known} of {total} shapes known from the sizes of the inputs")
    assert wrong == []
    assert total
    assert known / total > LEAST_SHARE[kind, constants]
