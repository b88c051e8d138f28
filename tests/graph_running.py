"""Models as ONNX text, compiled without a session, and what other runtimes make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort

from onnxgen.graph.cpu.provider import CpuProvider
from onnxgen.graph.ep.provider import ExecutionProvider
from onnxgen.graph.loader import load_graph
from onnxgen.graph.optimizer import OptimizationLevel
from onnxgen.graph.session.compile import compile_model
from onnxgen.graph.session.executor import Executable

RUNS_UNTIL_PREPARED = 2
"""The first run of a signature allocates, the second is watched, the next ones are prepared."""


def model_of(text: str, *, opset: int = 21) -> onnx.ModelProto:
    """A model from the text of its graph, checked."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n{text}')
    onnx.checker.check_model(model)
    return model


def compiled(
    model: onnx.ModelProto | str,
    providers: Sequence[ExecutionProvider] | None = None,
    *,
    opset: int = 21,
    **options: Any,
) -> Executable:
    """The model as its nodes are, unless ``level`` says otherwise."""
    model = model_of(model, opset=opset) if isinstance(model, str) else model
    options.setdefault("level", OptimizationLevel.DISABLED)
    return compile_model(load_graph(model), providers or [CpuProvider()], **options)


def all_outputs(executable: Executable, feeds: Mapping[str, Any], **options: Any) -> list[Any]:
    """Every output of one run."""
    return executable.run(feeds, [value.name for value in executable.outputs], **options)


def prepared_outputs(executable: Executable, feeds: Mapping[str, Any], **options: Any) -> list[Any]:
    """Every output of the first run whose values live in an arena."""
    for _ in range(RUNS_UNTIL_PREPARED):
        all_outputs(executable, feeds, **options)
    return all_outputs(executable, feeds, **options)


def ort_outputs(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """What ONNX Runtime computes."""
    settings = ort.SessionOptions()
    settings.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def arrays_in(value: Any) -> list[np.ndarray]:
    """Every array of a value."""
    if isinstance(value, np.ndarray):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [array for item in items for array in arrays_in(item)]
