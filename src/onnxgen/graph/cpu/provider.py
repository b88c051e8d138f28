"""The ``cpu`` execution provider."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from onnxgen.graph.costs.assumed_sizes import at_assumed_sizes
from onnxgen.graph.costs.estimates import estimate
from onnxgen.graph.costs.host import host_roofline
from onnxgen.graph.cpu.ops import all_kernels
from onnxgen.graph.cpu.registry import KernelDef, KernelTable
from onnxgen.graph.ep import host
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, Decline


class CpuProvider:
    """Kernels of this package, one or more candidates for an operator."""

    name = "cpu"
    device = HOST
    allocate = staticmethod(host.allocate)
    to_device = staticmethod(host.to_device)
    to_host = staticmethod(host.to_host)
    synchronize = staticmethod(host.synchronize)

    @cached_property
    def table(self) -> KernelTable:
        """Every kernel; the operator families are imported at the first question."""
        return all_kernels()

    def claim(self, node: NodeSpec) -> Claim | Decline:
        """Claim the node for the candidate that can run it in the least estimated time.

        Dimensions that are symbols are compared at an assumed size. The first candidate wins where times are equal, and
        where one of them cannot be estimated.
        """
        able, reasons = self._split(node)
        if able:
            return Claim(fastest(able, node).name, estimate(node))
        if reasons:
            return Decline("; ".join(reasons))
        versions = self.table.versions_of(node.domain, node.op_type)
        known = ", ".join(map(str, versions))
        return Decline(f"has versions {known} of it" if versions else "has no kernel for it")

    def compile(self, node: NodeSpec, claim: Claim) -> Kernel:
        """Make the kernel that the claim named."""
        (chosen,) = [kernel for kernel in self.table.candidates(node) if kernel.name == claim.kernel]
        return chosen.make(node)

    def _split(self, node: NodeSpec) -> tuple[list[KernelDef], list[str]]:
        able: list[KernelDef] = []
        reasons: list[str] = []
        for kernel in self.table.candidates(node):
            reason = kernel.why_not(node) if kernel.why_not else None
            if reason is None:
                able.append(kernel)
            else:
                reasons.append(f"{kernel.name}: {reason}")
        return able, reasons


def fastest(candidates: Sequence[KernelDef], node: NodeSpec) -> KernelDef:
    """The candidate with the least estimated time; the first one where an estimate is missing."""
    if len(candidates) == 1:
        return candidates[0]
    sized = replace(node, inputs=at_assumed_sizes(node.inputs), outputs=at_assumed_sizes(node.outputs))
    cost, roofline = estimate(sized), host_roofline()
    seconds = [
        roofline.seconds(cost) if kernel.seconds is None else kernel.seconds(sized, cost, roofline)
        for kernel in candidates
    ]
    known = [time for time in seconds if time is not None]
    return candidates[seconds.index(min(known))] if len(known) == len(seconds) else candidates[0]
