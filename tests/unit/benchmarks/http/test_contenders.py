import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from benchmarks.http.contenders import CONTENDERS, MOST_AT_ONCE, Places
from benchmarks.http.setup import llama_server as setup
from benchmarks.peers.contenders import OURS


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "environments", tmp_path / "models", threads=3)


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.key)
def test_each_is_started_with_its_model_port_and_threads(contender, places):
    start = contender.start(places, places.models / "m" / contender.form, 4711)
    words = [str(word) for word in start.command]
    assert words[words.index("--port") + 1] == "4711"
    assert str(places.models / "m" / contender.form) in words
    assert "3" in [*words, *start.variables.values()]
    assert contender.is_peer == (not contender.name.startswith(OURS))
    if contender.is_peer:
        assert str(MOST_AT_ONCE) in words


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.key)
def test_what_is_missing_is_named(contender, places):
    if contender.is_peer:
        assert contender.lacks(places, "m") == (
            f"{contender.program(places.environments).name} is not there; python -m benchmarks.http.setup makes it"
        )
        program = contender.program(places.environments)
        program.parent.mkdir(parents=True)
        program.touch()
    assert contender.lacks(places, "m").startswith("m is not there in its form")
    (places.models / "m").mkdir(parents=True)
    (places.models / "m" / contender.form).touch()
    (places.models / "m" / f"{contender.form}.gguf").touch()
    assert contender.lacks(places, "m") is None


def test_ours_runs_the_command_of_this_interpreter_on_each_backend(places):
    backends = {}
    for contender in CONTENDERS:
        if not contender.is_peer:
            start = contender.start(places, Path("m"), 1)
            assert start.command[:4] == [sys.executable, "-m", "onnxgen.cli", "serve"]
            backends[contender.key] = start.variables["ONNXGEN_BACKEND"]
    assert backends == {"native": "native", "ort": "ort"}


def test_the_server_is_built_from_the_sources_of_the_installed_package(monkeypatch, tmp_path):
    commands = []

    def run(command, *, check, **options):
        words = [str(word) for word in command]
        commands.append(words)
        if "download" in words:
            with tarfile.open(Path(words[-1]) / "llama_cpp_python-9.9.tar.gz", "w:gz") as archive:
                entry = tarfile.TarInfo("llama_cpp_python-9.9/vendor/llama.cpp/CMakeLists.txt")
                archive.addfile(entry, io.BytesIO())
        if "--build" in words:
            program = Path(words[words.index("--build") + 1]) / "bin" / "llama-server"
            program.parent.mkdir(parents=True)
            program.write_text("built")
        return subprocess.CompletedProcess(words, 0, stdout="9.9\n")

    monkeypatch.setattr(setup.subprocess, "run", run)
    setup.build_llama_server(tmp_path, jobs=3)
    assert setup.llama_server(tmp_path).read_text() == "built"
    assert setup.llama_server_version(tmp_path) == "llama.cpp of llama-cpp-python 9.9"
    assert "llama-cpp-python==9.9" in commands[1]
    assert commands[-1][-2:] == ["--parallel", "3"]
    done = len(commands)
    setup.build_llama_server(tmp_path, jobs=3)
    assert len(commands) == done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["llama-server"]
