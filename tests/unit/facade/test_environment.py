import pytest

from onnxgen.errors import CapabilityError
from onnxgen.facade import environment, not_here


def test_devices_are_those_of_the_installed_runtime(monkeypatch):
    from onnxgen.backends.ort import providers

    monkeypatch.setattr(providers, "available_providers", lambda: ("CUDAExecutionProvider",))
    assert environment.is_cuda_available()
    for other in ("dml", "openvino", "qnn", "webgpu"):
        assert not getattr(environment, f"is_{other}_available")()


def test_there_is_no_telemetry():
    environment.disable_telemetry_events()
    with pytest.raises(CapabilityError, match="collects nothing"):
        environment.enable_telemetry_events()


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
