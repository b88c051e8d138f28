import sys

import pytest
from benchmarks.peers.layout import model_path, python_of
from benchmarks.peers.setup import __main__ as setup
from benchmarks.peers.setup import environments


def test_what_is_interrupted_is_made_again(tmp_path):
    def fail(part):
        part.mkdir()
        (part / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        setup._made_whole(tmp_path / "model", fail)
    assert not (tmp_path / "model").exists()
    setup._made_whole(tmp_path / "model", lambda part: part.mkdir())
    assert list((tmp_path / "model").iterdir()) == []


def test_an_environment_is_complete_only_when_pip_succeeded(tmp_path, monkeypatch):
    commands = []

    def run(command, *, check, env=None):
        commands.append((command, env))
        (tmp_path / "peers-llamacpp").mkdir(exist_ok=True)

    monkeypatch.setattr(environments.subprocess, "run", run)
    environments.make_environment(tmp_path, "llamacpp")
    (venv, _), (pip, variables) = commands
    assert venv == [sys.executable, "-m", "venv", str(tmp_path / "peers-llamacpp")]
    assert pip[pip.index("--no-binary") + 1] == pip[-1] == "llama-cpp-python"
    assert "-DGGML_NATIVE=ON" in variables["CMAKE_ARGS"]
    environments.make_environment(tmp_path, "llamacpp")
    assert len(commands) == 2


def test_only_missing_forms_are_made(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(setup, "make_environment", lambda folder, name: made.append(name))
    monkeypatch.setattr(setup, "_run", lambda command: (made.append(command), _output(command).mkdir()))
    arguments = ["--environments", str(tmp_path / "e"), "--models", str(tmp_path / "m"), "--gguf", "x.gguf"]
    monkeypatch.setattr(sys, "argv", ["setup", *arguments, "--only", "openvino"])
    (tmp_path / "m" / "smollm2-135m" / "checkpoint").mkdir(parents=True)
    setup.main()
    assert made[:2] == ["openvino", "export"]
    assert len(made) == 2 + 3  # one checkpoint, two exports
    assert all(model_path(tmp_path / "m", model, "openvino").is_dir() for model in setup.MODELS)
    setup.main()
    assert len(made) == 2 + 3 + 2


def _output(command):
    return next(word for word in command if getattr(word, "name", "").startswith("part-"))


def test_an_unknown_peer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["setup", "--environments", "e", "--models", "m", "--only", "og,vllm"])
    with pytest.raises(SystemExit, match="no such peer: vllm; there are onnxgen, og"):
        setup.main()


def test_places(tmp_path):
    assert python_of(tmp_path, "og").is_relative_to(tmp_path / "peers-og")
    assert model_path(tmp_path, "m", "llamacpp") == tmp_path / "m" / "llamacpp.gguf"
