"""The table of CPU kernels: which function makes the kernel of which operator and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.costs.roofline import Roofline
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

MICROSOFT = "com.microsoft"
ML = "ai.onnx.ml"


@dataclass(frozen=True, slots=True)
class KernelDef:
    """One candidate for an operator.

    Attributes:
        domain: ``""`` for the standard.
        op_type: The operator.
        versions: Versions of the operator (``since_version`` of its schemas) whose meaning it implements.
        name: For people: ``conv/im2col``.
        make: Makes the kernel of a node that ``why_not`` lets pass.
        why_not: Why it cannot run a node, None when it can.
        seconds: Its estimated time for work of that cost; None where the general roofline says it.
    """

    domain: str
    op_type: str
    versions: tuple[int, ...]
    name: str
    make: Callable[[NodeSpec], Kernel]
    why_not: Callable[[NodeSpec], str | None] | None = None
    seconds: Callable[[NodeSpec, Cost, Roofline], float | None] | None = None


class KernelTable:
    """Kernels by operator. Each operator family's file fills one table of its own; the provider joins them."""

    def __init__(self, tables: Iterable[KernelTable] = ()) -> None:
        self._by_operator: dict[tuple[str, str, int], list[KernelDef]] = {}
        for table in tables:
            for kernel in table:
                self.add(kernel)

    def __iter__(self) -> Iterator[KernelDef]:
        """Every kernel once, in the order of registration."""
        return iter(dict.fromkeys(kernel for kernels in self._by_operator.values() for kernel in kernels))

    def add(self, kernel: KernelDef) -> None:
        """Register a kernel for each of its versions."""
        for version in kernel.versions:
            self._by_operator.setdefault((kernel.domain, kernel.op_type, version), []).append(kernel)

    def candidates(self, node: NodeSpec) -> Sequence[KernelDef]:
        """Kernels for the node's operator and version, in the order of registration."""
        return self._by_operator.get((node.domain, node.op_type, node.since_version), ())

    def versions_of(self, domain: str, op_type: str) -> tuple[int, ...]:
        """Versions of an operator that have a kernel."""
        return tuple(sorted(v for d, o, v in self._by_operator if (d, o) == (domain, op_type)))

    def operator(
        self,
        op_type: str,
        *versions: int,
        domain: str = "",
        name: str | None = None,
        why_not: Callable[[NodeSpec], str | None] | None = None,
        seconds: Callable[[NodeSpec, Cost, Roofline], float | None] | None = None,
    ) -> Callable[[Callable[[NodeSpec], Kernel]], Callable[[NodeSpec], Kernel]]:
        """Register the decorated function as the maker of an operator's kernel.

        Args:
            op_type: The operator.
            *versions: Every ``since_version`` whose meaning the kernel implements; 1 for contrib operators.
            domain: Its domain.
            name: For people; the function's name by default.
            why_not: See `KernelDef`.
            seconds: See `KernelDef`.
        """

        def register(make: Callable[[NodeSpec], Kernel]) -> Callable[[NodeSpec], Kernel]:
            self.add(KernelDef(domain, op_type, versions, name or make.__name__, make, why_not, seconds))
            return make

        return register
