"""Tests whose values cannot be compared, each with its reason. They still run: shapes and types must be right."""

from __future__ import annotations

import onnx

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def why_not_compared(name: str, model: onnx.ModelProto) -> str | None:
    """Why a test's values are not compared with the expectation; None when they are."""
    operators = {node.op_type for node in model.graph.node}
    random = sorted(operators & _RANDOM)
    if random:
        return f"{', '.join(random)}: the standard leaves the random stream to the implementation"
    if "Dropout" in operators and name.startswith("test_training_dropout") and "zero_ratio" not in name:
        return "Dropout in training mode: the standard leaves the random stream to the implementation"
    return None
