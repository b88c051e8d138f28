"""The runtimes that cases run on: ours, and ONNX Runtime as the peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnxgen.conformance.cases import Case
from onnxgen.conformance.runner import Load, Subject
from onnxgen.graph.session import GraphOptimizationLevel, InferenceSession, SessionOptions

_ALONE = {"cpu", "executor"}


class _Ours:
    def __init__(self, case: Case, providers: Sequence[str], options: SessionOptions) -> None:
        self._session = InferenceSession(case.model.SerializeToString(), options, list(providers))
        claimed = {assignment.provider_name for _, assignment in self._session.executable.placement}
        self.claimed_by_cpu = claimed <= _ALONE

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        return self._session.run(None, feeds)


class _OnnxRuntime:
    claimed_by_cpu = None

    def __init__(self, case: Case) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def run(self, feeds: Mapping[str, Any]) -> Sequence[Any]:
        return self._session.run(None, dict(feeds))


def ours(providers: Sequence[str], *, level: GraphOptimizationLevel, memory_reuse: bool) -> Load:
    """Load cases with `onnxgen.InferenceSession`."""
    options = SessionOptions()
    options.graph_optimization_level = level
    options.enable_mem_reuse = memory_reuse

    def load(case: Case) -> Subject:
        return _Ours(case, providers, options)

    return load


def onnx_runtime() -> Load:
    """Load cases with ONNX Runtime's CPU provider."""
    return _OnnxRuntime
