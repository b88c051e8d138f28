"""The cost model: bytes and operations of a node, and the time a device needs for them.

Knows operators, shapes and device facts; knows no kernel and no provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxgen.foundations.lazy_names import lazy_names

if TYPE_CHECKING:
    from onnxgen.graph.costs.cost import Cost
    from onnxgen.graph.costs.estimates import estimate
    from onnxgen.graph.costs.host import host_roofline
    from onnxgen.graph.costs.roofline import Roofline

__all__ = ["Cost", "Roofline", "estimate", "host_roofline"]

__getattr__ = lazy_names(
    __name__,
    {
        "cost": ("Cost",),
        "estimates": ("estimate",),
        "host": ("host_roofline",),
        "roofline": ("Roofline",),
    },
)
