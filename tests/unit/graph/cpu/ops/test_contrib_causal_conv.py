from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.provider import Decline

MS = "com.microsoft"


def numbers(*shape):
    seed = int(np.random.default_rng().integers(2**31))
    print("seed", seed)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def compare(op_type, *inputs, outputs=2, **options):
    got, want = (run(op_type, *inputs, domain=MS, outputs=outputs, **options) for run in (run_cpu, run_ort))
    assert_same(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("dilation", [1, 2])
def test_layouts_and_states(activation, dilation):
    options, state = {"activation": activation, "dilation": dilation}, 3 * dilation
    weight, bias = numbers(3, 1, 4), numbers(3)
    op_type = "CausalConvWithState"
    compare(op_type, numbers(2, 3, 5), weight, bias, numbers(2, 3, state), **options)
    compare(op_type, numbers(2, 3, 5), weight, **options)
    compare(op_type, numbers(2, 5, 3), weight, bias, numbers(2, state, 3), channels_last=1, **options)
    compare(
        op_type,
        numbers(2, 5, 3, 2),
        numbers(6, 1, 4),
        None,
        numbers(2, state, 3, 2),
        channels_last=1,
        **options,
    )


@pytest.mark.parametrize("last", [0, 1])
def test_a_window_of_states_has_that_after_each_of_the_last_positions(last):
    x, weight, past = numbers(2, 3, 5), numbers(3, 1, 4), numbers(2, 3, 3)
    options = {"domain": MS, "outputs": 2, "channels_last": last}
    if last:
        x, past = x.swapaxes(1, 2).copy(), past.swapaxes(1, 2).copy()
    pasts = np.stack([np.full_like(past, np.nan)] * 6 + [past])
    _, states = run_cpu("CausalConvWithState", x, weight, None, pasts, state_window=7, **options)
    assert not states[:2].any()
    for slot in range(2, 7):
        part = x[:, : slot - 1] if last else x[:, :, : slot - 1]
        assert_same(states[slot], run_cpu("CausalConvWithState", part, weight, None, past, **options)[1])


@pytest.mark.parametrize("dilation", [1, 2])
def test_packed_sequences(dilation):
    x, weight, bounds = numbers(7, 3), numbers(3, 1, 4), np.array([0, 3, 7], np.int32)
    state = numbers(2, 3, 3 * dilation)
    options = {"dilation": dilation, "activation": "silu"}
    compare("VarlenCausalConvWithState", x, weight, bounds, numbers(3), state, **options)
    captured = {"state_update_capacity": 2, "outputs": 3}
    compare(
        "VarlenCausalConvWithState",
        x,
        weight,
        bounds,
        None,
        state,
        np.array([1, 9], np.int32),
        **captured,
        **options,
    )


def test_several_axes_are_causal_on_the_last_only():
    x, weight = numbers(1, 1, 3, 5), numbers(1, 1, 3, 2)
    y, present = run_cpu("CausalConvWithState", x, weight, domain=MS, outputs=2, ndim=2)
    wide = np.pad(x[0, 0], ((1, 1), (1, 0)))
    want = [[(wide[i : i + 3, j : j + 2] * weight[0, 0]).sum() for j in range(5)] for i in range(3)]
    assert_same(y[0, 0], np.array(want, np.float32), rtol=1e-4, atol=1e-5)
    assert_same(present, x[..., -1:])


def test_what_does_not_fit_is_an_error_or_declined():
    x, weight, past = numbers(1, 3, 5), numbers(3, 1, 4), numbers(1, 3, 2)
    with pytest.raises(KernelError, match="past_state"):
        kernel_of(node_spec("CausalConvWithState", x, weight, None, past, domain=MS, outputs=2)).run(
            x, weight, None, past
        )
    for options in ({"activation": "relu"}, {"state_length": 5}):
        assert isinstance(
            CpuProvider().claim(node_spec("CausalConvWithState", x, weight, domain=MS, **options)), Decline
        )
