from types import SimpleNamespace

import numpy as np
import pytest

from backend_cases import make_case
from onnxgen.backends.native.profiling import StepProfiler, row_kind
from onnxgen.backends.profile import KernelTime, ProfiledBackend, StepProfile
from onnxgen.backends.timed_steps import Answers
from onnxgen.errors import BackendError, StateError


def _table(*rows):
    """Kernel names with their labels."""
    return SimpleNamespace(
        kernels=[SimpleNamespace(name=name) for name, _ in rows], labels=[label for _, label in rows]
    )


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("/model/layers.12/mlp/down_proj/MatMulNBits", "product /model/layers.*/mlp/down_proj/MatMulNBits"),
        ("h_3_MatMul_Q4", "product h_*_MatMul_Q4"),
        ("product[bits=4]", "product"),
    ],
)
def test_a_kind_is_the_same_in_all_layers(label, kind):
    assert row_kind(_table(("product[bits=4]", label)), 0) == kind


def test_rows_of_one_kind_add_up_and_rows_without_parts_do_not_count():
    table = _table(("a", "/1/x"), ("b", "b"), ("a", "/2/x"), ("c", "c"))
    profiler = StepProfiler()
    for _ in range(2):
        profiler.add_pass(table, np.array([1, 2, 1, 0]), np.array([10**9, 5 * 10**9, 2 * 10**9, 7]))
    profiler.add_step(20.0)
    assert profiler.result() == StepProfile(1, 20.0, (KernelTime("b", 2, 10.0), KernelTime("a /*/x", 4, 6.0)))


@pytest.fixture
def backend(tmp_path):
    with_oracle = make_case("native", tmp_path, seed=3)
    yield with_oracle.backend
    with_oracle.backend.close()


def test_steps_are_profiled_while_they_are_asked_to(backend):
    assert isinstance(backend, ProfiledBackend)
    with Answers(backend, [[1, 2, 3]], 8, chunk_tokens=16) as answers:
        answers.read_prompts()
        profile = backend.profile(lambda: answers.write(4))
        answers.write(2)
    assert profile.steps == 4
    assert 0 < profile.kernel_seconds <= profile.seconds
    attention = [kernel for kernel in profile.kernels if kernel.name.startswith("attend")]
    assert sum(kernel.calls for kernel in attention) == 4 * 2  # steps and layers
    assert backend.profile(lambda: None) == StepProfile(0, 0.0, ())


def test_a_failure_ends_the_profile(backend):
    def fail():
        raise BackendError("no more")

    with pytest.raises(BackendError):
        backend.profile(fail)
    assert backend._runner.profiler is None


def test_a_closed_backend_has_no_profile(backend):
    backend.close()
    with pytest.raises(StateError):
        backend.profile(lambda: None)
