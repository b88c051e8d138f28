"""The cheaper way to give way, from measurements."""

import pytest

from onnxgen.scheduler.costs import PreemptionCosts


def test_nothing_measured_swaps():
    costs = PreemptionCosts()
    assert costs.choose(num_tokens=100, num_bytes=10**9) == "swap"
    costs.observe_prefill(10, 1.0)
    assert costs.choose(num_tokens=1, num_bytes=10**9) == "swap"


@pytest.mark.parametrize(("num_bytes", "mode"), [(400, "swap"), (500, "swap"), (501, "recompute")])
def test_out_and_in_is_weighed_against_computing(num_bytes, mode):
    costs = PreemptionCosts()
    costs.observe_prefill(50, 0.5)  # 10 ms each
    costs.observe_swap(1000, 1.0)  # 1 ms each
    assert costs.choose(num_tokens=100, num_bytes=num_bytes) == mode


def test_estimates_follow_what_is_measured():
    costs = PreemptionCosts(smoothing=0.5)
    costs.observe_prefill(10, 1.0)
    assert costs.seconds_per_token == pytest.approx(0.1)
    costs.observe_prefill(10, 3.0)
    assert costs.seconds_per_token == pytest.approx(0.2)
    costs.observe_prefill(0, 3.0)
    assert costs.seconds_per_token == pytest.approx(0.2)


def test_what_was_not_measured_is_none():
    assert (PreemptionCosts().seconds_per_token, PreemptionCosts().seconds_per_byte) == (None, None)
