import logging

import pytest

from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade import environment, not_here


@pytest.fixture
def restored():
    logger = logging.getLogger("onnxgen")
    level = logger.level
    yield logger
    logger.setLevel(level)


def test_devices_are_those_of_the_installed_runtime(monkeypatch):
    from onnxgen.backends.ort import providers

    monkeypatch.setattr(providers, "available_providers", lambda: ("CUDAExecutionProvider",))
    assert environment.is_cuda_available()
    for other in ("dml", "openvino", "qnn", "webgpu"):
        assert not getattr(environment, f"is_{other}_available")()


def test_messages_are_switched_on_and_off(restored):
    environment.set_log_options(enabled=True, warning=True, ansi_tags=False, model_logits=False)
    assert restored.level == logging.INFO
    environment.set_log_options(enabled=False)
    assert restored.level == logging.WARNING


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"enable": True}, OptionError, "did you mean 'enabled'"),
        ({"enabled": 1}, OptionError, "must be True or False"),
        ({"enabled": True, "model_input_values": True}, CapabilityError, "model_input_values"),
        ({"filename": "log.txt"}, CapabilityError, "FileHandler"),
    ],
    ids=str,
)
def test_what_cannot_be_logged_is_refused_and_changes_nothing(restored, options, error, message):
    restored.setLevel(logging.ERROR)
    with pytest.raises(error, match=message):
        environment.set_log_options(**options)
    assert restored.level == logging.ERROR


def test_libraries_cannot_be_registered():
    with pytest.raises(CapabilityError, match="'CUDAExecutionProvider'"):
        environment.register_execution_provider_library("CUDAExecutionProvider", "lib.so")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda: not_here.Images.open("a.png"), id="images"),
        pytest.param(lambda: not_here.Images.open_bytes(b"x"), id="image bytes"),
        pytest.param(lambda: not_here.Audios.open("a.wav"), id="audios"),
        pytest.param(lambda: not_here.Audios.open_bytes(b"x"), id="audio bytes"),
    ],
)
def test_what_is_not_here_says_so_when_it_is_used(call):
    with pytest.raises(CapabilityError, match="this version"):
        call()
