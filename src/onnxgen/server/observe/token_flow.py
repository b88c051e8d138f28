"""`TokenFlow`: counts tokens of answers and the times between them, at a fraction of a microsecond each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_NAMES = (*map(floatToGoString, BOUNDS_S), "+Inf")


class TokenFlow:
    """The tokens of one model's answers. For one thread, so that it needs no locks.

    Attributes:
        num_tokens: Tokens so far.
        between_s: All times between them together, in seconds.
        counts: How many times fall into each bucket: up to a bound of `BOUNDS_S`, and above the last one.
    """

    __slots__ = ("between_s", "counts", "num_tokens")

    def __init__(self) -> None:
        self.num_tokens = 0
        self.between_s = 0.0
        self.counts = [0] * len(_NAMES)

    def passed(self, seconds: float) -> None:
        """Between two pieces of an answer so much time passed for each token of the later one."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.between_s += seconds


class TokenFlows(Collector):
    """The tokens of all models' answers, for Prometheus."""

    def __init__(self) -> None:
        self._by_model: dict[str, TokenFlow] = {}

    def of(self, model: str) -> TokenFlow:
        """That of one model."""
        return self._by_model.setdefault(model, TokenFlow())

    def collect(self) -> Iterator[Metric]:
        """Both families."""
        tokens = CounterMetricFamily("onnxgen_completion_tokens", "Tokens of answers.", labels=["model"])
        times = HistogramMetricFamily(
            "onnxgen_inter_token_seconds",
            "Between pieces of an answer, for each token of the later one.",
            labels=["model"],
        )
        for model, flow in self._by_model.items():
            tokens.add_metric([model], flow.num_tokens)
            buckets = [
                (name, float(count)) for name, count in zip(_NAMES, accumulate(flow.counts), strict=True)
            ]
            times.add_metric([model], buckets, flow.between_s)
        yield from (tokens, times)
