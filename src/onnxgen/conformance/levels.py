"""Optimization levels by the names that the command line uses."""

from __future__ import annotations

from types import MappingProxyType

from onnxgen.graph.session import GraphOptimizationLevel

LEVELS = MappingProxyType(
    {
        "disabled": GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
        "all": GraphOptimizationLevel.ORT_ENABLE_ALL,
    }
)
"""From nothing to everything, each with what the ones before it do."""
