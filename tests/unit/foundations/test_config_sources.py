"""Runtime configuration from flags, variables, a file and defaults."""

import dataclasses
from pathlib import Path

import pytest

from onnxgen.errors import ConfigError
from onnxgen.foundations import config_sources
from onnxgen.foundations.config_sources import load_runtime_config
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.foundations.settings_table import SETTINGS


@pytest.fixture(autouse=True)
def _no_file_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setattr(config_sources, "default_config_file", lambda: tmp_path / "user" / "config.toml")


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_field_can_be_set():
    assert set(SETTINGS) == {field.name for field in dataclasses.fields(RuntimeConfig)}


def test_nothing_set_means_defaults():
    resolved = load_runtime_config(environ={})
    assert resolved.config == RuntimeConfig()
    assert set(resolved.origins.values()) == {"default"}
    assert resolved.config_file is None


def test_each_source_wins_over_the_next(tmp_path):
    file = toml(tmp_path, 'threads = 1\nlog_level = "error"\nbackend = "ort"')
    resolved = load_runtime_config(
        flags={"threads": 3},
        environ={"ONNXGEN_THREADS": "2", "ONNXGEN_LOG_LEVEL": "debug"},
        config_file=file,
    )
    assert (resolved.config.threads, resolved.config.log_level, resolved.config.backend) == (
        3,
        "DEBUG",
        "ort",
    )
    assert resolved.origins["threads"] == "flag --threads"
    assert resolved.origins["log_level"] == "ONNXGEN_LOG_LEVEL"
    assert resolved.origins["backend"] == str(file)
    assert resolved.origins["spinning"] == "default"


def test_variables_of_every_kind():
    config = load_runtime_config(
        environ={
            "ONNXGEN_THREADS": " 4 ",
            "ONNXGEN_INTER_OP_THREADS": "auto",
            "ONNXGEN_SPINNING": "Off",
            "ONNXGEN_PROVIDERS": "CUDAExecutionProvider, CPUExecutionProvider",
            "ONNXGEN_PROVIDER_OPTIONS": '{"CUDAExecutionProvider": {"device_id": 1}}',
            "ONNXGEN_CACHE_DIR": "~/模型 cache",
            "ONNXGEN_PREFILL_CHUNK_TOKENS": "64",
            "ONNXGEN_MEMORY_LIMIT_MB": "2048",
            "ONNXGEN_KV_CACHE_DTYPE": "INT8",
            "ONNXGEN_OFFLINE": "yes",
            "ONNXGEN_BACKEND": "ort",
            "PATH": "/usr/bin",
        }
    ).config
    assert config == RuntimeConfig(
        backend="ort",
        threads=4,
        inter_op_threads=None,
        spinning=False,
        providers=("CUDAExecutionProvider", "CPUExecutionProvider"),
        provider_options={"CUDAExecutionProvider": {"device_id": "1"}},
        cache_dir=Path.home() / "模型 cache",
        prefill_chunk_tokens=64,
        memory_limit_mb=2048,
        kv_cache_dtype="int8",
        offline=True,
    )


def test_an_empty_variable_counts_as_not_set():
    resolved = load_runtime_config(environ={"ONNXGEN_THREADS": "", "ONNXGEN_CONFIG": " "})
    assert resolved.origins["threads"] == "default"


def test_a_file_of_every_kind(tmp_path):
    file = toml(
        tmp_path,
        """
        threads = "auto"
        spinning = false
        providers = ["CPUExecutionProvider"]
        cache_dir = "relative"
        [provider_options.QNNExecutionProvider]
        backend_path = "lib.so"
        """,
    )
    config = load_runtime_config(environ={}, config_file=file).config
    assert config.threads is None
    assert config.spinning is False
    assert config.providers == ("CPUExecutionProvider",)
    assert config.cache_dir.is_absolute()
    assert config.provider_options == {"QNNExecutionProvider": {"backend_path": "lib.so"}}


def test_a_variable_names_the_file(tmp_path):
    file = toml(tmp_path, "threads = 7")
    resolved = load_runtime_config(environ={"ONNXGEN_CONFIG": str(file)})
    assert resolved.config.threads == 7
    assert resolved.config_file == file


def test_the_flag_for_the_file_wins_over_the_variable(tmp_path):
    file = toml(tmp_path, "threads = 7")
    resolved = load_runtime_config(environ={"ONNXGEN_CONFIG": "/nowhere.toml"}, config_file=file)
    assert resolved.config.threads == 7


def test_the_file_of_the_user_is_found():
    file = config_sources.default_config_file()
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xef\xbb\xbfthreads = 9")
    resolved = load_runtime_config(environ={})
    assert (resolved.config.threads, resolved.origins["threads"]) == (9, str(file))


@pytest.mark.parametrize("origin", ["flag", "variable"])
def test_a_file_that_was_named_must_be_there(origin):
    missing = "/nowhere/onnxgen.toml"
    with pytest.raises(ConfigError, match="there is no file"):
        if origin == "flag":
            load_runtime_config(environ={}, config_file=Path(missing))
        else:
            load_runtime_config(environ={"ONNXGEN_CONFIG": missing})


def test_an_unknown_variable_is_an_error_with_a_hint():
    with pytest.raises(
        ConfigError, match="unknown environment variable ONNXGEN_THREAD; did you mean 'ONNXGEN_THREADS'"
    ):
        load_runtime_config(environ={"ONNXGEN_THREAD": "4"})


def test_an_unknown_key_names_the_file_and_a_hint(tmp_path):
    file = toml(tmp_path, "threds = 4")
    with pytest.raises(ConfigError, match=r"config\.toml: unknown key 'threds'; did you mean 'threads'"):
        load_runtime_config(environ={}, config_file=file)


def test_an_unknown_flag_is_an_error():
    with pytest.raises(ConfigError, match="unknown option 'thread'; did you mean 'threads'"):
        load_runtime_config(environ={}, flags={"thread": 4})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("THREADS", "0"),
        ("THREADS", "-1"),
        ("THREADS", "two"),
        ("THREADS", "2.5"),
        ("INTER_OP_THREADS", "0"),
        ("SPINNING", "maybe"),
        ("OFFLINE", "2"),
        ("PREFILL_CHUNK_TOKENS", "0"),
        ("PREFILL_CHUNK_TOKENS", "auto"),
        ("MEMORY_LIMIT_MB", "0"),
        ("LOG_LEVEL", "LOUD"),
        ("PROVIDERS", "CPUExecutionProvider,,"),
        ("PROVIDER_OPTIONS", "{"),
        ("PROVIDER_OPTIONS", "[]"),
        ("PROVIDER_OPTIONS", '{"X": 1}'),
        ("PROVIDER_OPTIONS", '{"X": {"a": true}}'),
        ("PROVIDER_OPTIONS", '{"X": {"a": [1]}}'),
    ],
)
def test_a_wrong_variable_is_named_with_its_text(variable, text):
    with pytest.raises(ConfigError) as caught:
        load_runtime_config(environ={f"ONNXGEN_{variable}": text})
    assert f"ONNXGEN_{variable}" in str(caught.value)
    assert repr(text) in str(caught.value)
    assert "expected" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threads", True),
        ("threads", "4"),
        ("threads", 1.5),
        ("spinning", "yes"),
        ("spinning", 1),
        ("providers", 3),
        ("providers", [""]),
        ("backend", ""),
        ("log_level", 10),
        ("cache_dir", 3),
        ("cache_dir", ""),
    ],
)
def test_a_typed_value_of_the_wrong_kind_names_flag_and_value(name, value):
    with pytest.raises(ConfigError) as caught:
        load_runtime_config(environ={}, flags={name: value})
    assert f"flag --{name.replace('_', '-')}" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_a_cache_folder_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="expected a folder, found a file"):
        load_runtime_config(environ={"ONNXGEN_CACHE_DIR": str(file)})


@pytest.mark.parametrize("text", ["1", "ON", "yes", "True"])
def test_the_hub_switch_means_offline(text):
    resolved = load_runtime_config(environ={"HF_HUB_OFFLINE": text})
    assert resolved.config.offline is True
    assert resolved.origins["offline"] == "HF_HUB_OFFLINE"


@pytest.mark.parametrize("text", ["0", "", "no", "whatever"])
def test_a_hub_switch_that_is_off_says_nothing(text):
    resolved = load_runtime_config(environ={"HF_HUB_OFFLINE": text})
    assert resolved.config.offline is False
    assert resolved.origins["offline"] == "default"


def test_our_own_switch_wins_over_the_hubs():
    resolved = load_runtime_config(environ={"HF_HUB_OFFLINE": "1", "ONNXGEN_OFFLINE": "0"})
    assert resolved.config.offline is False
    assert resolved.origins["offline"] == "ONNXGEN_OFFLINE"


def test_the_hub_switch_wins_over_the_file(tmp_path):
    resolved = load_runtime_config(
        environ={"HF_HUB_OFFLINE": "1"}, config_file=toml(tmp_path, "offline = false")
    )
    assert resolved.config.offline is True


@pytest.mark.parametrize("content", [b"threads = ", b"threads = 1\nthreads = 2", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_named(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML"):
        load_runtime_config(environ={}, config_file=path)


def test_the_process_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("ONNXGEN_THREADS", "11")
    assert load_runtime_config().config.threads == 11


def test_variables_of_kernels_are_no_settings():
    environ = {"ONNXGEN_ISA": "generic", "ONNXGEN_KERNEL_CACHE": "/somewhere", "ONNXGEN_THREADS": "3"}
    resolved = load_runtime_config(environ=environ)
    assert resolved.config == RuntimeConfig(threads=3)
    with pytest.raises(ConfigError, match="did you mean 'ONNXGEN_KERNEL_CACHE'"):
        load_runtime_config(environ={"ONNXGEN_KERNEL_CACHES": "/somewhere"})


def test_a_folder_may_be_given_as_a_text():
    assert RuntimeConfig(cache_dir="somewhere/else").cache_dir == Path("somewhere/else")
