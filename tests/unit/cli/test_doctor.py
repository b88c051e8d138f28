import json
import platform
from importlib.metadata import version

import pytest

from onnxgen.foundations.cpuinfo import default_threads, detect_cpu
from onnxgen.graph.cpu.step.code_folder import Code, CodeFolder
from onnxgen.graph.cpu.step.code_store import CodeStore


@pytest.fixture
def facts(onnxgen, monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXGEN_PREFILL_CHUNK_TOKENS", "77")
    result = onnxgen("doctor", "--json", "--threads", "3")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_versions_are_the_installed_ones(facts):
    assert facts["versions"]["onnxgen"] == version("onnxgen")
    assert facts["versions"]["onnxruntime"] == version("onnxruntime")
    assert facts["versions"]["python"].startswith(platform.python_version())


def test_each_setting_says_where_it_comes_from(facts, tmp_path):
    settings = facts["configuration"]
    assert settings["threads"] == {"value": 3, "origin": "flag --threads"}
    assert settings["prefill_chunk_tokens"] == {"value": 77, "origin": "ONNXGEN_PREFILL_CHUNK_TOKENS"}
    assert settings["cache_dir"] == {"value": str(tmp_path / "cache"), "origin": "ONNXGEN_CACHE_DIR"}
    assert settings["spinning"]["origin"] == "default"


def test_it_says_what_would_run_here(facts):
    assert "ort" in facts["backends"]["available"]
    assert "CPUExecutionProvider" in facts["backends"]["onnxruntime_providers"]
    assert facts["cache"]["free_bytes"] > 0 and facts["cache"]["models_bytes"] == 0


def test_it_can_be_read(onnxgen):
    text = onnxgen("doctor").stdout
    assert "\n  threads: not set  (default)\n" in text and "{" not in text


def test_the_machine_is_this_one(facts):
    cpu = detect_cpu()
    assert facts["machine"]["cpu"] == cpu.model_name
    assert facts["machine"]["cpu_features"] == sorted(cpu.features)
    assert facts["machine"]["default_threads"] == default_threads(cpu)


def test_it_says_what_native_kernels_use(onnxgen, monkeypatch, tmp_path):
    monkeypatch.setenv("ONNXGEN_ISA", "generic")
    monkeypatch.setattr(
        "onnxgen.graph.cpu.step.code_store.default_store", lambda: CodeStore(tmp_path / "code")
    )
    CodeFolder(tmp_path / "code").write("key", Code(b"machine code", "symbol"), name="kernel")
    native = json.loads(onnxgen("doctor", "--json", "--threads", "3").stdout)["native_kernels"]
    assert native["instruction_set"] == "generic"
    assert native["forced_by"] == "ONNXGEN_ISA=generic"
    assert native["possible_instruction_sets"][-1] == "generic"
    assert native["threads"] == 3
    store = native["kernel_store"]
    assert (store["folder"], store["kernels"], store["writable"]) == (str(tmp_path / "code"), 1, True)
    assert store["size_bytes"] > len(b"machine code")


def test_an_instruction_set_that_is_none_is_said(onnxgen, monkeypatch):
    monkeypatch.setenv("ONNXGEN_ISA", "avx9000")
    result = onnxgen("doctor")
    assert result.exit_code == 0
    assert "ONNXGEN_ISA=avx9000 is no instruction set" in result.stdout
