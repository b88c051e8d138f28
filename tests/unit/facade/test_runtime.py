import logging

import numpy as np
import onnxruntime
import pytest

import onnxgen
from graph_models import model
from onnxgen.errors import ConfigError
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


def test_severities_are_onnx_runtimes(caplog):
    logger = logging.getLogger("onnxgen.graph.session")
    before = logger.level
    try:
        onnxgen.set_default_logger_severity(1)
        onnxgen.InferenceSession(model("g (float[N] x) => (float[N] y) { y = Neg(x) }"))
        assert "loaded" in caplog.text
        caplog.clear()
        onnxgen.set_default_logger_severity(3)
        onnxgen.InferenceSession(model("g (float[N] x) => (float[N] y) { y = Neg(x) }"))
        assert caplog.text == ""
        for wrong in (5, -1, "info"):
            with pytest.raises(ConfigError, match="0, 1, 2, 3, 4"):
                onnxgen.set_default_logger_severity(wrong)
    finally:
        logger.setLevel(before)


def test_the_device_is_the_host():
    assert onnxgen.get_device() == onnxruntime.get_device()
