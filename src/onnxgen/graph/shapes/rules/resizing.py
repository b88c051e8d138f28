"""Resizing images."""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.graph.shapes.rules.tools import Rule

RULES: Mapping[tuple[str, str], Rule] = {}
