"""Forms of operators that onnx.reference has a class for, but computes wrongly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnxgen.graph.ep.node import NodeSpec

_ML = "ai.onnx.ml"


def why_not(node: NodeSpec) -> str | None:
    """The reason for which this node is not run here, although its operator is; None where it is."""
    limit = _LIMITS.get((node.domain, node.op_type))
    return limit(node) if limit else None


def _linear_regressor(node: NodeSpec) -> str | None:
    transform = node.attr("post_transform", "NONE")
    return None if transform == "NONE" else f"onnx.reference does not have post_transform {transform!r}"


def _linear_classifier(node: NodeSpec) -> str | None:
    if node.attr("post_transform", "NONE") == "PROBIT":
        return "onnx.reference computes post_transform PROBIT wrongly"
    two = len(node.attr("classlabels_ints", ()) or node.attr("classlabels_strings", ())) == 2
    return "onnx.reference computes scores of two classes differently from ONNX Runtime" if two else None


def _tree_classifier(node: NodeSpec) -> str | None:
    two = len(node.attr("classlabels_int64s", ()) or node.attr("classlabels_strings", ())) == 2
    return "onnx.reference computes scores of two classes differently from ONNX Runtime" if two else None


def _tree_regressor(node: NodeSpec) -> str | None:
    several = node.attr("n_targets", 1) > 1 and node.attr("aggregate_function", "SUM") in ("MIN", "MAX")
    return "onnx.reference gives targets without leaves a limit of floats instead of 0" if several else None


_LIMITS: Mapping[tuple[str, str], Callable[[NodeSpec], str | None]] = {
    (_ML, "LinearRegressor"): _linear_regressor,
    (_ML, "LinearClassifier"): _linear_classifier,
    (_ML, "TreeEnsembleClassifier"): _tree_classifier,
    (_ML, "TreeEnsembleRegressor"): _tree_regressor,
}
