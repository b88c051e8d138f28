"""Asking providers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from onnxgen.errors import UnsupportedOperatorError
from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.costs.estimates import estimate
from onnxgen.graph.costs.roofline import Roofline
from onnxgen.graph.ep.from_graph import node_spec
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, ExecutionProvider
from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.placement.placement import EXECUTOR, Assignment, Placement, node_label

__all__ = ["EXECUTOR", "place"]

_CONTROL_FLOW = frozenset(("If", "Loop", "Scan", "SequenceMap"))
_BROAD = ("reference", "ort")
"""Providers to recommend: they run nearly everything, slowly or through ONNX Runtime."""

_UNKNOWN_COST = Cost(None, None, None)


def place(
    graph: ir.Graph,
    providers: Sequence[ExecutionProvider],
    *,
    opsets: Mapping[str, int],
    roofline: Roofline,
) -> Placement:
    """Give every node to the first provider that claims it.

    Args:
        graph: The graph, with types and shapes inferred. Graphs inside nodes are placed too (see `runs_graphs`); the
            executor runs those nodes themselves.
        providers: In the order of the user's preference.
        opsets: What the model imports, by domain.
        roofline: The device whose time is estimated.

    Raises:
        UnsupportedOperatorError: Nodes that nobody claims: all of them, with everybody's reason.
    """
    assignments: dict[ir.Node, Assignment] = {}
    paths: dict[ir.Node, str] = {}
    refused: list[str] = []
    for node, path in _nodes(graph, ""):
        spec = node_spec(node, opsets)
        paths[node] = path
        if runs_graphs(node):
            assignments[node] = Assignment(spec, None, Claim(EXECUTOR), (), _UNKNOWN_COST, None)
            continue
        found = _ask(spec, providers, roofline)
        if isinstance(found, Assignment):
            assignments[node] = found
        else:
            refused.append(_refusal(spec, node, path, found))
    if refused:
        raise UnsupportedOperatorError(
            f"{len(refused)} of {len(paths)} nodes have no execution provider that runs them "
            f"(asked: {', '.join(provider.name for provider in providers) or 'none'}); {_advice(providers)}:\n  "
            + "\n  ".join(refused)
        )
    return Placement(assignments, paths)


def _ask(
    spec: NodeSpec, providers: Sequence[ExecutionProvider], roofline: Roofline
) -> Assignment | list[tuple[str, str]]:
    declined: list[tuple[str, str]] = []
    for provider in providers:
        answer = provider.claim(spec)
        if isinstance(answer, Claim):
            cost = estimate(spec) if answer.cost is None else answer.cost
            return Assignment(spec, provider, answer, tuple(declined), cost, roofline.seconds(cost))
        declined.append((provider.name, answer.reason))
    return declined


def _refusal(spec: NodeSpec, node: ir.Node, path: str, reasons: list[tuple[str, str]]) -> str:
    """The node and where it is, then a line for each provider's reason."""
    name = "" if spec.name else f" {node_label(node)}"
    where = f" in {path}" if path else ""
    return "\n    ".join([f"{spec}{name}{where}", *(f"{provider}: {reason}" for provider, reason in reasons)])


def _advice(providers: Sequence[ExecutionProvider]) -> str:
    asked = {provider.name for provider in providers}
    left = [repr(name) for name in _BROAD if name not in asked]
    return f"give the session {' or '.join([*left, 'a provider of your own'])}"


def _nodes(graph: ir.Graph, path: str) -> Iterator[tuple[ir.Node, str]]:
    for node in graph:
        yield node, path
        if runs_graphs(node):
            for name, attribute in node.attributes.items():
                if attribute.type is ir.AttributeType.GRAPH:
                    yield from _nodes(attribute.as_graph(), f"{path}/{node_label(node)}.{name}".lstrip("/"))


def runs_graphs(node: ir.Node) -> bool:
    """Whether a node is If, Loop, Scan or SequenceMap of the standard, or FlexAttention that has graphs."""
    domain = normal_domain(node.domain)
    if (domain, node.op_type) == ("ai.onnx.preview", "FlexAttention"):
        return any(attribute.type is ir.AttributeType.GRAPH for attribute in node.attributes.values())
    return not domain and node.op_type in _CONTROL_FLOW
