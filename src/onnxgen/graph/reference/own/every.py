"""All families of own operators together."""

from __future__ import annotations

from functools import cache

from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own import inner_graphs, random_draws

_FAMILIES = (inner_graphs.OWN, random_draws.OWN)


@cache
def own_operators() -> dict[tuple[str, str, int], type[OpRun]]:
    """Every class of every family, by domain, operator and version."""
    return {key: implementation for family in _FAMILIES for key, implementation in family}
