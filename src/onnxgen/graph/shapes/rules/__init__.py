"""Shape rules of our own, one file for each operator family: where the library has none, or one that is not right.

A rule gives the outputs of a node their types and shapes; what it does not know, it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.graph.shapes.rules import (
    attention,
    axes,
    broadcasting,
    classical,
    contrib,
    matrices,
    old_versions,
    pooling,
    quantized,
    rare_contrib,
    recurrent,
    resizing,
    slicing,
)
from onnxgen.graph.shapes.rules.tools import Rule

RULES: Mapping[tuple[str, str], Rule] = {
    key: rule
    for family in (
        broadcasting,
        axes,
        matrices,
        pooling,
        resizing,
        slicing,
        recurrent,
        attention,
        quantized,
        contrib,
        rare_contrib,
        classical,
    )
    for key, rule in family.RULES.items()
}
"""Rules by domain and operator."""

old_rule = old_versions.old_rule
