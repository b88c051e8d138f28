"""The ONNX backend tests of the installed onnx through our providers, at every level and with and without memory reuse."""

import functools

import numpy as np
import pytest

from onnxgen.conformance.cases import GROUPS, load_cases
from onnxgen.conformance.runner import run_group
from onnxgen.conformance.subjects import ours
from onnxgen.graph.session import GraphOptimizationLevel

pytestmark = [
    pytest.mark.timeout(900),
    # onnx computes expectations with overflows and old NumPy habits of its own.
    pytest.mark.filterwarnings("ignore"),
]

load = functools.cache(lambda group: tuple(load_cases(group)))
ALL = GraphOptimizationLevel.ORT_ENABLE_ALL


# The operator differentiates the graph around it; no provider of nodes can.
NOT_RUN = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}


def run(group, providers, *, level=ALL, memory_reuse=True, repeats=3):
    result = run_group(
        group, load(group), ours(providers, level=level, memory_reuse=memory_reuse), repeats=repeats
    )
    assert result.total == len(load(group))
    return result


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("level", list(GraphOptimizationLevel), ids=lambda level: level.name)
def test_every_test_passes_at_every_level(group, level):
    assert set(run(group, ["cpu", "reference"], level=level).failed) <= NOT_RUN


@pytest.mark.parametrize("group", GROUPS)
def test_every_test_passes_without_memory_reuse(group):
    assert set(run(group, ["cpu", "reference"], memory_reuse=False).failed) <= NOT_RUN


def test_the_cpu_provider_runs_three_quarters_of_the_node_tests_alone():
    result = run("node", ["cpu", "reference"], repeats=1)
    assert result.claimed_by_cpu is not None
    assert result.claimed_by_cpu >= 0.75 * result.total
    assert len(result.excluded) < 0.01 * result.total


def test_the_reference_provider_alone_runs_the_node_tests():
    with np.errstate(all="ignore"):
        result = run("node", ["reference"], level=GraphOptimizationLevel.ORT_DISABLE_ALL, repeats=1)
    assert not result.failed
