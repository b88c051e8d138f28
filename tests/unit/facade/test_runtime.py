import numpy as np

import onnxgen
from graph_models import model
from onnxgen.facade import runtime


def test_the_package_offers_the_runtime():
    for name in runtime.__all__:
        assert getattr(onnxgen, name) is getattr(runtime, name)
    session = onnxgen.InferenceSession(
        model("g (float[N] x) => (float[N] y) { y = Neg(x) }"),
        onnxgen.SessionOptions(logid="a"),
        ["CPUExecutionProvider"],
    )
    x = np.ones(2, np.float32)
    assert session.run(None, {"x": x})[0].tolist() == onnxgen.eager.Neg(x).tolist() == [-1, -1]


def test_providers_are_listed():
    assert set(onnxgen.get_available_providers()) <= set(onnxgen.get_all_providers())
    assert {"cpu", "reference"} <= set(onnxgen.get_available_providers())
