"""Placement: which execution provider runs which node.

Asks the providers in the order of the user's preference and keeps every answer; knows the protocol, no provider.
"""

from __future__ import annotations

from onnxgen.graph.placement.place import EXECUTOR, place
from onnxgen.graph.placement.placement import Assignment, Placement, PlacementRow

__all__ = ["EXECUTOR", "Assignment", "Placement", "PlacementRow", "place"]
