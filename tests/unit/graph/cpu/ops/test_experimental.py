"""Operators of the standard's experimental days, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError
from onnxgen.graph.cpu.ops.experimental import elementwise

NODES = [
    ("Affine", {}),
    ("Affine", {"alpha": 2.5, "beta": -1.0}),
    ("Scale", {}),
    ("Scale", {"scale": 3.0}),
    ("ScaledTanh", {"alpha": 0.5, "beta": 2.0}),
    ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}),
    ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}),
    ("Crop", {"border": [1, 0, 2, 1]}),
    ("Crop", {"border": [1, 1, 0, 0], "scale": [2, 3]}),
    ("MeanVarianceNormalization", {}),
    ("MeanVarianceNormalization", {"across_channels": 1}),
    ("MeanVarianceNormalization", {"normalize_variance": 0}),
    ("ThresholdedRelu", {"alpha": 0.5}),
]


@pytest.mark.parametrize(("op_type", "attributes"), NODES)
def test_each_gives_what_onnx_runtime_gives(op_type, attributes):
    x = fresh_rng().standard_normal((2, 3, 4, 5)).astype(np.float32)
    got = run_cpu(op_type, x, opset=7, **attributes)
    assert_same(got, run_ort(op_type, x, opset=7, **attributes), rtol=1e-4)


@pytest.mark.parametrize("axes", [None, [1, 3], [0, -1]])
def test_slices_from_inputs(axes):
    x = fresh_rng().standard_normal((2, 3, 4, 5)).astype(np.float32)
    inputs = [x, np.array([1, -2]), np.array([100, -1]), *([] if axes is None else [np.array(axes)])]
    assert_same(run_cpu("DynamicSlice", *inputs, opset=7), run_ort("DynamicSlice", *inputs, opset=7))


def test_a_parameter_without_a_default_is_asked_for():
    node = node_spec("ScaledTanh", np.zeros(3, np.float32), opset=7, alpha=1.0)
    with pytest.raises(InvalidGraphError, match="'beta'"):
        elementwise(node)
