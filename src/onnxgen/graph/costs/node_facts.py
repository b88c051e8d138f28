"""What the cost model needs of a node; nodes as providers see them have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from onnxgen.graph.ir.types import ValueType


class NodeFacts(Protocol):
    """An operator, its attributes, and the types around it."""

    @property
    def domain(self) -> str:
        """``""`` for the standard."""
        ...

    @property
    def op_type(self) -> str:
        """The operator."""
        ...

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes by name, as plain values."""
        ...

    @property
    def inputs(self) -> tuple[ValueType | None, ...]:
        """Types of the inputs; None for one that is left out."""
        ...

    @property
    def outputs(self) -> tuple[ValueType | None, ...]:
        """Types of the outputs; None for one that nobody asked for."""
        ...

    @property
    def constants(self) -> Mapping[int, np.ndarray]:
        """Known values of inputs, by index."""
        ...
