"""What every execution provider keeps. Run over all of `provider_cases.PROVIDERS`."""

import copy
import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng
from onnxgen.conformance.compare import check_value
from onnxgen.graph.ep.provider import HOST, Claim, Decline, ExecutionProvider
from provider_cases import PROVIDERS, own_cases, random_node, sampled_cases

SAMPLED = 60
RANDOM_NODES = 1500


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return PROVIDERS[request.param]()


@pytest.fixture
def claimed(provider):
    """Cases that the provider claims, with their claims; some of the standard's, drawn anew each time, and our own."""
    cases = sampled_cases(fresh_rng(), SAMPLED) + own_cases()
    pairs = [(case, claim) for case in cases if isinstance(claim := provider.claim(case.node), Claim)]
    assert pairs
    return pairs


def to_device(provider, value):
    return provider.to_device(value) if isinstance(value, np.ndarray) else value


def to_host(provider, value):
    if provider.device == HOST or value is None or isinstance(value, list | dict):
        return value
    return provider.to_host(value)


def given(provider, case):
    """Inputs on the provider's device; on the host read-only."""
    if provider.device != HOST:
        return [to_device(provider, value) for value in case.inputs]
    return [_read_only(value) for value in case.inputs]


def _read_only(value):
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def run(provider, case, kernel, inputs):
    with np.errstate(all="ignore"):
        results = kernel.run(*inputs)
    provider.synchronize()
    results = results if len(case.node.outputs) > 1 else (results,)
    assert isinstance(results, tuple), case.name
    assert len(results) == len(case.node.outputs), case.name
    return [to_host(provider, value) for value in results]


def test_it_is_a_provider(provider):
    assert isinstance(provider, ExecutionProvider)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", provider.name)
    assert provider.device == HOST or re.fullmatch(r"[a-z]+:\d+", provider.device)


def test_claims_answer_any_node_without_side_effects(provider):
    random = fresh_rng()
    for _ in range(RANDOM_NODES):
        node = random_node(random)
        before = copy.deepcopy((node.attributes, node.constants))
        answers = [provider.claim(node), provider.claim(node)]
        assert answers[0] == answers[1], node
        after = (node.attributes, node.constants)
        for old, new in zip(before, after, strict=True):
            assert old.keys() == new.keys()
            assert all(np.array_equal(old[key], new[key]) for key in old)


def test_declines_have_reasons_that_complete_a_sentence(provider):
    random = fresh_rng()
    nodes = [random_node(random) for _ in range(RANDOM_NODES)]
    reasons = {answer.reason for node in nodes if isinstance(answer := provider.claim(node), Decline)}
    assert reasons
    for reason in reasons:
        assert reason.strip() == reason != ""
        assert " " in reason, reason
        assert not reason.endswith("."), reason


def test_claims_are_promises(provider, claimed):
    for case, claim in claimed:
        kernel = provider.compile(case.node, claim)
        results = run(provider, case, kernel, given(provider, case))
        for index, (found, expected) in enumerate(zip(results, case.outputs, strict=True)):
            if case.node.outputs[index] is not None and expected is not None:
                check_value(
                    found, expected, rtol=1e-2, atol=1e-3, where=f"{case.name}, output {index}", values=False
                )


def test_own_nodes_compute_what_they_should(provider):
    for case in own_cases():
        claim = provider.claim(case.node)
        if isinstance(claim, Claim):
            results = run(provider, case, provider.compile(case.node, claim), given(provider, case))
            assert_same(results, list(case.outputs), rtol=1e-5)


def test_a_node_can_be_compiled_twice(provider):
    case = next(case for case in own_cases() if isinstance(provider.claim(case.node), Claim))
    claim = provider.claim(case.node)
    first, second = (provider.compile(case.node, claim) for _ in range(2))
    inputs = given(provider, case)
    assert_same(run(provider, case, first, inputs), run(provider, case, second, inputs))


def test_inputs_stay_as_they_are(provider, claimed):
    for case, claim in claimed:
        inputs = [to_device(provider, value) for value in case.inputs]
        before = [copy.deepcopy(to_host(provider, value)) for value in inputs]
        run(provider, case, provider.compile(case.node, claim), inputs)
        for value, old in zip(inputs, before, strict=True):
            if old is not None:
                assert_same_bits(to_host(provider, value), old, case.name)


def assert_same_bits(found, expected, where):
    if isinstance(expected, np.ndarray) and expected.dtype != object:
        assert found.tobytes() == expected.tobytes(), where
    elif isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other, where)
    else:
        assert np.array_equal(found, expected), where


def on_host(provider):
    if provider.device != HOST:
        pytest.skip("views and buffers are a matter of the host's memory")


def test_views_of_inputs_are_declared(provider, claimed):
    on_host(provider)
    for case, claim in claimed:
        kernel = provider.compile(case.node, claim)
        results = run(provider, case, kernel, given(provider, case))
        for (out, value), (index, source) in itertools.product(enumerate(results), enumerate(case.inputs)):
            if isinstance(value, np.ndarray) and isinstance(source, np.ndarray) and value.size:
                shared = np.may_share_memory(value, source)
                assert not shared or (out, index) in kernel.may_alias, (
                    f"{case.name}: output {out}, input {index}"
                )


def test_into_is_run_into_given_memory(provider, claimed):
    on_host(provider)
    tried = 0
    for case, claim in claimed:
        kernel = provider.compile(case.node, claim)
        if (
            kernel.into is None
            or not case.determined
            or not all(isinstance(y, np.ndarray) for y in case.outputs)
        ):
            continue
        inputs = given(provider, case)
        expected = run(provider, case, kernel, inputs)
        tried += 1
        check_into(kernel, inputs, [dirty(value) for value in expected], expected)
        for out, index in kernel.in_place:
            source = inputs[index] if index < len(inputs) else None
            if source is None or (source.shape, source.dtype) != (expected[out].shape, expected[out].dtype):
                continue
            shared = source.copy(order="C")
            buffers = [shared if position == out else dirty(value) for position, value in enumerate(expected)]
            swapped = [shared if position == index else value for position, value in enumerate(inputs)]
            check_into(kernel, swapped, buffers, expected)
    assert tried or not any(provider.compile(case.node, claim).into for case, claim in claimed)


def dirty(value):
    """Memory of that form in which an element that nobody wrote shows."""
    buffer = np.empty(value.shape, value.dtype)
    if value.dtype != object:
        buffer.reshape(-1).view(np.uint8)[...] = 0x55
    return buffer


def check_into(kernel, inputs, buffers, expected):
    with np.errstate(all="ignore"):
        kernel.into(*inputs, *buffers)
    assert_same(buffers, expected)


def test_kernels_run_in_several_threads_at_once(provider, claimed):
    with ThreadPoolExecutor(4) as pool:
        for case, claim in claimed[:: max(1, len(claimed) // 40)]:
            if not case.determined:
                continue
            kernel = provider.compile(case.node, claim)
            inputs = given(provider, case)
            alone = run(provider, case, kernel, inputs)
            for results in pool.map(lambda _: run(provider, case, kernel, inputs), range(8)):  # noqa: B023
                for found, expected in zip(results, alone, strict=True):
                    if expected is not None:
                        assert_same(found, expected)


@pytest.mark.parametrize("num_bytes", [0, 1, 63, 64, 65, 100_000])
def test_memory_of_the_host_is_aligned_bytes(provider, num_bytes):
    memory = provider.allocate(num_bytes)
    if provider.device == HOST:
        assert memory.dtype == np.uint8
        assert memory.shape == (num_bytes,)
        assert num_bytes == 0 or memory.ctypes.data % 64 == 0
        assert memory.flags.c_contiguous
        assert memory.flags.writeable
        assert not np.may_share_memory(memory, provider.allocate(num_bytes)) or num_bytes == 0


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float16, np.int64, np.uint8, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4],
)
@pytest.mark.parametrize("shape", [(), (0, 2), (5,), (2, 3, 4)])
def test_values_come_back_from_the_device(provider, dtype, shape):
    array = np.asarray(np.random.default_rng().integers(0, 2, shape)).astype(dtype)
    value = provider.to_device(array)
    back = provider.to_host(value)
    provider.synchronize()
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()
    assert (value is array and back is array) is (provider.device == HOST)
    strided = array.T[..., ::-1] if array.ndim else array
    np.testing.assert_array_equal(provider.to_host(provider.to_device(strided)), strided)
