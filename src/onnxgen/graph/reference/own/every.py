"""All families of own operators together."""

from __future__ import annotations

from functools import cache

from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own import (
    conv_transpose,
    inner_graphs,
    labels,
    maps,
    normalization,
    old_broadcasting,
    old_softmax,
    optionals,
    pooling,
    random_draws,
    recurrent,
    shapes,
    small_changes,
)

_FAMILIES = (
    conv_transpose.OWN,
    inner_graphs.OWN,
    labels.OWN,
    maps.OWN,
    normalization.OWN,
    old_broadcasting.OWN,
    old_softmax.OWN,
    optionals.OWN,
    pooling.OWN,
    random_draws.OWN,
    recurrent.OWN,
    shapes.OWN,
    small_changes.OWN,
)


@cache
def own_operators() -> dict[tuple[str, str, int], type[OpRun]]:
    """Every class of every family, by domain, operator and version."""
    return {key: implementation for family in _FAMILIES for key, implementation in family}
