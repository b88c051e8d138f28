"""Who runs which node of a graph, and what everybody answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import Claim, ExecutionProvider


@dataclass(frozen=True, slots=True)
class Assignment:
    """One node and who runs it.

    Attributes:
        node_spec: The node as the providers were told of it.
        provider: Who runs it; None for nodes with graphs, which the executor runs itself.
        claim: What the provider promised.
        declined: Providers before it and their reasons.
        cost: What the node costs, as far as shapes say.
        seconds: The time that the roofline gives for that; None if the cost is not known.
    """

    node_spec: NodeSpec
    provider: ExecutionProvider | None
    claim: Claim
    declined: tuple[tuple[str, str], ...]
    cost: Cost
    seconds: float | None

    @property
    def provider_name(self) -> str:
        """The provider's name; ``executor`` for control flow."""
        return EXECUTOR if self.provider is None else self.provider.name


EXECUTOR = "executor"
"""Who runs nodes that have graphs: If, Loop, Scan, SequenceMap and some of FlexAttention."""


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """A line of the table for people; `Assignment` as text and numbers.

    Attributes:
        node: The node's name, or the name of its first output in ``<>``.
        graph: Where it is: empty for the main graph, else the path of names of nodes and attributes.
        operator: Domain, operator and version.
        provider: Who claimed it.
        kernel: With which kernel.
        declined: Who declined, and why.
        bytes: Read and written together.
        operations: Arithmetic operations.
        seconds: Estimated time.
    """

    node: str
    graph: str
    operator: str
    provider: str
    kernel: str
    declined: Mapping[str, str]
    bytes: int | None
    operations: int | None
    seconds: float | None


class Placement:
    """The assignments of every node of a graph and of the graphs inside it."""

    def __init__(self, assignments: Mapping[ir.Node, Assignment], paths: Mapping[ir.Node, str]) -> None:
        self._assignments = dict(assignments)
        self._paths = dict(paths)

    def __iter__(self) -> Iterator[tuple[ir.Node, Assignment]]:
        """Nodes in the order of the graph, those of inner graphs after their node."""
        return iter(self._assignments.items())

    def __len__(self) -> int:
        return len(self._assignments)

    def of(self, node: ir.Node) -> Assignment:
        """The assignment of a node.

        Raises:
            KeyError: The node is not one of the graph's.
        """
        return self._assignments[node]

    def providers(self) -> tuple[ExecutionProvider, ...]:
        """Providers that run at least one node, in the order of their first."""
        found = (assignment.provider for assignment in self._assignments.values())
        return tuple(dict.fromkeys(provider for provider in found if provider is not None))

    def table(self) -> tuple[PlacementRow, ...]:
        """A row for each node."""
        return tuple(
            _row(node, assignment, self._paths[node]) for node, assignment in self._assignments.items()
        )


def _row(node: ir.Node, assignment: Assignment, path: str) -> PlacementRow:
    spec, cost = assignment.node_spec, assignment.cost
    moved = (
        None
        if cost.bytes_read is None or cost.bytes_written is None
        else cost.bytes_read + cost.bytes_written
    )
    domain = f"{spec.domain}." if spec.domain else ""
    return PlacementRow(
        node=node_label(node),
        graph=path,
        operator=f"{domain}{spec.op_type}-{spec.since_version}",
        provider=assignment.provider_name,
        kernel=assignment.claim.kernel,
        declined=dict(assignment.declined),
        bytes=moved,
        operations=cost.operations,
        seconds=assignment.seconds,
    )


def node_label(node: ir.Node) -> str:
    """A name for people: the node's own, else its first output's in ``<>``."""
    return node.name or f"<{next((value.name for value in node.outputs if value.name), '')}>"
