from pathlib import Path

import pytest

from onnxgen.backends.base import DecoderModel, ProviderSpec
from onnxgen.backends.ort.options import (
    choose_providers,
    make_session_options,
    provider_name,
    refuse_cache_type,
)
from onnxgen.errors import ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig

AVAILABLE = ["CUDAExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]


def model(**fields):
    return DecoderModel(Path("m.onnx"), {}, {}, num_layers=1, vocab_size=8, context_length=8, **fields)


def names(specs):
    return [s.name for s in specs]


def test_the_folders_options_are_set_and_the_runs_win():
    folder = {
        "intra_op_num_threads": 3, "inter_op_num_threads": 2, "enable_mem_pattern": False, "log_id": "x",
        "graph_optimization_level": "ORT_ENABLE_BASIC", "session.disable_prepacking": "1",
        "provider_options": [{"cuda": {}}], "enable_profiling": "prefix", "log_severity_level": 1,
    }  # fmt: skip
    options = make_session_options(model(session_options=folder), RuntimeConfig())
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 2)
    assert (options.enable_mem_pattern, options.logid, options.log_severity_level) == (False, "x", 1)
    assert options.graph_optimization_level.name == "ORT_ENABLE_BASIC"
    assert options.get_session_config_entry("session.disable_prepacking") == "1"
    assert options.enable_profiling
    run = RuntimeConfig(threads=5, inter_op_threads=4, spinning=False)
    options = make_session_options(model(session_options=folder), run)
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (5, 4)
    assert options.execution_mode.name == "ORT_PARALLEL"
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("intra_op_num_threads", "4", "must be int, got '4'"),
        ("intra_op_num_threads", True, "must be int"),
        ("enable_mem_pattern", 1, "must be bool"),
        ("graph_optimization_level", "FASTEST", "must be one of ORT_DISABLE_ALL"),
        ("graph_optimization_level", 3, "must be a string"),
        ("inter_op_num_thread", 3, "did you mean 'inter_op_num_threads'"),
        ("custom_ops_library", "/no/such/library.so", "cannot be loaded"),
    ],
)
def test_wrong_options_of_a_folder_are_refused(key, value, message):
    with pytest.raises(ConfigError, match=message):
        make_session_options(model(session_options={key: value}), RuntimeConfig())


@pytest.mark.parametrize("count", [0, -1, 100_000])
def test_thread_counts_that_make_no_sense_are_refused(count):
    for config in (RuntimeConfig(threads=count), RuntimeConfig(inter_op_threads=count)):
        with pytest.raises(ConfigError, match=f"threads must be between 1 and .*, got {count}"):
            make_session_options(model(), config)
    folder = model(session_options={"intra_op_num_threads": count})
    if count == 0:
        make_session_options(folder, RuntimeConfig())
    else:
        with pytest.raises(
            ConfigError, match=rf"intra_op_num_threads' of m\.onnx must be between 0 and .*{count}"
        ):
            make_session_options(folder, RuntimeConfig())


def test_without_a_choice_the_cpu_runs_the_model():
    assert names(choose_providers(model(), RuntimeConfig(), AVAILABLE)) == ["CPUExecutionProvider"]


def test_the_runs_providers_come_before_the_folders():
    folder = model(providers=(ProviderSpec("azure", {"a": "b"}),))
    assert names(choose_providers(folder, RuntimeConfig(), AVAILABLE)) == [
        "AzureExecutionProvider",
        "CPUExecutionProvider",
    ]
    run = RuntimeConfig(providers=("cuda",), provider_options={"CUDA": {"device_id": "1"}})
    chosen = choose_providers(folder, run, AVAILABLE)
    assert names(chosen) == ["CUDAExecutionProvider", "CPUExecutionProvider"]
    assert chosen[0].options == {"device_id": "1"}


@pytest.mark.parametrize("name", ["cuda", "CUDA", "CUDAExecutionProvider"])
def test_providers_have_short_names(name):
    assert provider_name(name, AVAILABLE) == "CUDAExecutionProvider"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            RuntimeConfig(providers=("cud",)),
            r"'cud' is not in this ONNX Runtime; available: CUDA.*did you mean 'cuda'",
        ),
        (
            RuntimeConfig(provider_options={"cpu": {"threads": "2"}}),
            "CPU provider takes no options, got threads",
        ),
        (RuntimeConfig(provider_options={"cuda": {"a": "b"}}), "'cuda', which does not run this model"),
    ],
)
def test_wrong_providers_are_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        choose_providers(model(), config, AVAILABLE)


def test_another_type_of_keys_and_values_is_refused():
    refuse_cache_type(RuntimeConfig())
    with pytest.raises(ConfigError, match="kv_cache_dtype is 'int8'; with ONNX Runtime"):
        refuse_cache_type(RuntimeConfig(kv_cache_dtype="int8"))
