"""`TokenFlow`: the same histogram as the one of Prometheus's own client."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from onnxgen.server.observe.token_flow import BOUNDS_S, TokenFlows

NAME = "onnxgen_inter_token_seconds"


@given(st.lists(st.one_of(st.sampled_from(BOUNDS_S), st.floats(0, 5)), max_size=40))
def test_times_fall_into_the_buckets_of_the_client_library(times):
    registry, theirs = CollectorRegistry(), CollectorRegistry()
    flows = TokenFlows()
    registry.register(flows)
    histogram = Histogram(NAME, "text", ["model"], buckets=BOUNDS_S, registry=theirs).labels("m")
    flow = flows.of("m")
    for seconds in times:
        flow.passed(seconds)
        histogram.observe(seconds)
    (ours,) = (m for m in registry.collect() if m.name == NAME)
    (wanted,) = theirs.collect()

    def values(metric):
        return {
            (s.name, *sorted(s.labels.items())): s.value for s in metric.samples if "_created" not in s.name
        }

    assert values(ours) == values(wanted)
