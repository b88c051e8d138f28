import dataclasses
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from onnxgen.backends import backend_names, choose_backend, load_backend
from onnxgen.backends.base import DecoderModel, ProviderSpec, SequenceInput, pack_step
from onnxgen.backends.native.backend import NativeBackend
from onnxgen.backends.ort.backend import OrtBackend
from onnxgen.errors import ConfigError, ModelFileError
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder, decoder_model

MODEL = DecoderModel(Path("nowhere/model.onnx"), {}, {}, num_layers=1, vocab_size=8, context_length=8)


@pytest.fixture
def config(tmp_path: Path) -> RuntimeConfig:
    return RuntimeConfig(threads=1, cache_dir=tmp_path)


@pytest.fixture
def grouped(tmp_path: Path) -> DecoderModel:
    return decoder_model(TinyDecoder(Sizes(), 1), Style(), tmp_path / "grouped.onnx")


@pytest.fixture
def plain(tmp_path: Path) -> DecoderModel:
    return decoder_model(TinyDecoder(Sizes(), 1), Style("plain"), tmp_path / "plain.onnx")


def test_an_unknown_backend_is_refused_with_those_there_are():
    assert backend_names() == ("native", "ort")
    for ask in (load_backend, choose_backend):
        with pytest.raises(
            ConfigError, match=r"'orr' is not available in this version.*available: auto, native"
        ):
            ask(MODEL, RuntimeConfig(backend="orr"))


@pytest.mark.parametrize("backend", ["auto", "native", "ort"])
def test_a_model_that_is_not_there_is_named(backend: str):
    with pytest.raises(ModelFileError, match=r"nowhere/model\.onnx"):
        load_backend(MODEL, RuntimeConfig(backend=backend))


def test_auto_takes_the_native_backend_where_every_node_has_kernels(
    grouped: DecoderModel, config: RuntimeConfig
):
    assert choose_backend(grouped, config).name == "native"
    assert isinstance(load_backend(grouped, config), NativeBackend)


def test_auto_takes_onnx_runtime_for_other_graphs_and_says_why(
    plain: DecoderModel, config: RuntimeConfig, caplog: pytest.LogCaptureFixture
):
    choice = choose_backend(plain, config)
    assert choice.name == "ort"
    assert "Transpose" in choice.reason
    with caplog.at_level(logging.INFO, logger="onnxgen.backends"):
        assert isinstance(load_backend(plain, config), OrtBackend)
    assert "Transpose" in caplog.text


@pytest.mark.parametrize(
    ("changes", "settings", "reason"),
    [
        ({}, {"providers": ("CUDA",)}, "provider CUDA"),
        ({"providers": (ProviderSpec("QNN"),)}, {}, "provider QNN"),
        ({}, {"inter_op_threads": 2}, "inter_op_threads"),
        ({"session_options": {"custom_ops_library": "x.so"}}, {}, "custom_ops_library"),
    ],
)
def test_what_only_onnx_runtime_has_decides(
    grouped: DecoderModel, config: RuntimeConfig, changes, settings, reason
):
    model, asked = dataclasses.replace(grouped, **changes), dataclasses.replace(config, **settings)
    assert choose_backend(model, asked).name == "ort"
    assert reason in choose_backend(model, asked).reason
    with pytest.raises(ConfigError, match=reason):
        load_backend(model, dataclasses.replace(asked, backend="native"))


def test_a_provider_that_is_the_cpu_leaves_the_choice_open(grouped: DecoderModel, config: RuntimeConfig):
    for name in ("cpu", "CPUExecutionProvider"):
        assert choose_backend(grouped, dataclasses.replace(config, providers=(name,))).name == "native"


def test_the_backend_that_is_asked_for_is_taken(grouped: DecoderModel, config: RuntimeConfig):
    asked = dataclasses.replace(config, backend="ort")
    assert choose_backend(grouped, asked).name == "ort"
    assert isinstance(load_backend(grouped, asked), OrtBackend)


def test_the_registry_imports_no_runtime():
    code = "import sys, onnxgen.backends; sys.exit('onnxruntime' in sys.modules or 'onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("backend", ["native", "ort"])
def test_a_model_in_memory_has_its_data_beside_the_path_it_would_have(
    grouped: DecoderModel, config: RuntimeConfig, backend: str
):
    content = grouped.path.read_bytes()
    grouped.path.unlink()
    in_memory = dataclasses.replace(grouped, model_bytes=content)
    loaded = load_backend(in_memory, dataclasses.replace(config, backend=backend))
    cache = loaded.create_cache(num_seqs=1, num_tokens=8)
    step = pack_step([SequenceInput([1, 2, 3], context_len=0, blocks=[0])])
    assert loaded.execute(step, cache).logits.shape == (1, grouped.vocab_size)
    cache.close()
    loaded.close()
