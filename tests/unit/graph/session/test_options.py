import copy
import pickle

import numpy as np
import onnxruntime
import pytest

from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.session import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)

NOT_HERE = {
    "add_external_initializers_from_files_in_memory", "add_provider", "add_provider_for_devices", "has_providers",
    "clear_ep_context_data_read_func", "set_ep_context_data_read_func", "set_load_cancellation_flag",
    "set_provider_selection_policy", "set_provider_selection_policy_delegate", "add_active_adapter",
    "use_per_session_threads",
}  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), [(SessionOptions, "SessionOptions"), (RunOptions, "RunOptions")])
def test_names_and_first_values_are_onnx_runtimes(ours, theirs):
    mine, other = ours(), getattr(onnxruntime, theirs)()
    for name in set(dir(other)) - NOT_HERE:
        if name.startswith("_"):
            continue
        expected, found = getattr(other, name), getattr(mine, name)
        if callable(expected):
            assert callable(found)
        elif name != "profile_file_prefix":
            assert getattr(found, "name", found) == getattr(expected, "name", expected)


def test_levels_have_onnx_runtimes_names_and_values():
    for level in GraphOptimizationLevel:
        assert getattr(onnxruntime.GraphOptimizationLevel, level.name).value == level.value
    assert GraphOptimizationLevel.ORT_DISABLE_ALL.level is OptimizationLevel.DISABLED
    assert GraphOptimizationLevel.ORT_ENABLE_BASIC.level is OptimizationLevel.BASIC
    assert GraphOptimizationLevel.ORT_ENABLE_EXTENDED.level is OptimizationLevel.EXTENDED
    assert GraphOptimizationLevel.ORT_ENABLE_ALL.level is OptimizationLevel.ALL


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("graph_optimisation_level", 0, "did you mean 'graph_optimization_level'"),
        ("graph_optimization_level", 7, "ORT_DISABLE_ALL, ORT_ENABLE_BASIC"),
        ("intra_op_num_threads", -1, "number of threads"),
        ("intra_op_num_threads", "2", "number of threads"),
        ("intra_op_num_threads", True, "number of threads"),
        ("inter_op_num_threads", 1.5, "number of threads"),
        ("execution_mode", ExecutionMode.ORT_PARALLEL, "ORT_SEQUENTIAL"),
        ("execution_order", ExecutionOrder.PRIORITY_BASED, "DEFAULT"),
        ("log_severity_level", 9, "-1 .* to 4"),
        ("log_verbosity_level", 1, "leave it at 0"),
        ("enable_profiling", "yes", "True or False"),
        ("enable_mem_reuse", 2, "True or False"),
        ("logid", 3, "a text"),
        ("optimized_model_filepath", 3, "a path"),
    ],
)
def test_what_has_no_effect_is_refused(name, value, message):
    options = SessionOptions()
    with pytest.raises(ConfigError, match=message):
        setattr(options, name, value)
    with pytest.raises(ConfigError, match=message):
        SessionOptions(**{name: value})


def test_values_are_kept():
    options = SessionOptions(enable_profiling=1, graph_optimization_level=0)
    assert options.enable_profiling is True
    assert options.graph_optimization_level is GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = ExecutionMode.ORT_SEQUENTIAL
    options.inter_op_num_threads, options.intra_op_num_threads = 4, np.int64(2)
    assert (options.inter_op_num_threads, options.intra_op_num_threads) == (4, 2)
    assert options.memory_reuse
    for name in ("enable_mem_pattern", "enable_mem_reuse", "enable_cpu_mem_arena"):
        assert not SessionOptions(**{name: False}).memory_reuse
    assert set(dir(options)) >= {"enable_profiling", "add_session_config_entry", "logid"}
    with pytest.raises(AttributeError, match="did you mean 'logid'"):
        _ = options.log_id


def test_options_do_not_share_state():
    first, second = SessionOptions(), SessionOptions()
    first.add_free_dimension_override_by_name("N", 1)
    first.logid = "first"
    assert second.free_dimension_overrides == {}
    assert second.logid == ""


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_have_the_same_values_and_go_their_own_way(again):
    options = SessionOptions(logid="first", graph_optimization_level=1)
    options.add_free_dimension_override_by_name("N", 1)
    options.add_initializer("w", np.ones(2, np.float32))
    options.add_session_config_entry("session.load_model_format", "ONNX")
    other = again(options)
    assert other.logid == "first"
    assert other.graph_optimization_level is GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert other.get_session_config_entry("session.load_model_format") == "ONNX"
    np.testing.assert_array_equal(other.initializers["w"], [1, 1])
    other.logid = "second"
    other.add_free_dimension_override_by_name("M", 2)
    assert options.logid == "first"
    assert options.free_dimension_overrides == {"N": 1}
    run_options = RunOptions(logid="run")
    stopped = again(run_options)
    stopped.terminate = True
    assert (stopped.logid, run_options.terminate) == ("run", False)


def test_settings_by_key():
    options = SessionOptions()
    options.add_session_config_entry("session.load_model_format", "ONNX")
    assert options.get_session_config_entry("session.load_model_format") == "ONNX"
    with pytest.raises(ConfigError, match="expected ONNX"):
        options.add_session_config_entry("session.load_model_format", "ORT")
    with pytest.raises(ConfigError, match=r"did you mean 'session\.load_model_format'"):
        options.add_session_config_entry("session.load_model_fromat", "ONNX")
    with pytest.raises(ConfigError, match="nothing was set"):
        options.get_session_config_entry("session.disable_cpu_ep_fallback")
    with pytest.raises(ConfigError, match="there are none"):
        RunOptions().add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    with pytest.raises(ConfigError, match="nothing was set"):
        RunOptions().get_run_config_entry("gpu_graph_id")


@pytest.mark.parametrize("size", [-1, 1.5, True, "2"])
def test_sizes_of_dimensions_are_whole_numbers(size):
    with pytest.raises(ConfigError, match="dimension 'N'"):
        SessionOptions().add_free_dimension_override_by_name("N", size)


def test_libraries_of_operators_are_refused():
    with pytest.raises(CapabilityError, match="execution provider"):
        SessionOptions().register_custom_ops_library("ops.so")
    with pytest.raises(ConfigError, match="1 names of initializers for 0 values"):
        SessionOptions().add_external_initializers(["a"], [])
