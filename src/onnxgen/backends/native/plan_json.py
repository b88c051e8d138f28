"""Plans as JSON, and back."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from onnxgen.backends.native.plan import (
    BlockMatrix,
    Buffer,
    CacheLayer,
    Call,
    Elements,
    Family,
    FloatMatrix,
    Part,
    RowKind,
    StepPlan,
    Stored,
    Vector,
    View,
    Weight,
)

_PARTS = {kind.__name__: kind for kind in (BlockMatrix, FloatMatrix, Vector)}


def plan_to_json(plan: StepPlan) -> dict[str, Any]:
    """A plan as what `json.dumps` takes."""
    return _plain(plan)


def _plain(value: Any) -> Any:
    if isinstance(value, BlockMatrix | FloatMatrix | Vector):
        return {"kind": type(value).__name__} | {
            f.name: _plain(getattr(value, f.name)) for f in fields(value)
        }
    if isinstance(value, View):
        return [value.buffer, value.offset, value.width]
    if isinstance(value, Stored):
        plain = asdict(value) | {"inline": base64.b64encode(value.inline).decode()}
        return {key: item for key, item in plain.items() if item or key in ("dtype", "shape")}
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def plan_from_json(facts: Mapping[str, Any]) -> StepPlan:
    """The plan that `plan_to_json` wrote.

    Raises:
        KeyError, ValueError, TypeError: It is none.
    """
    return StepPlan(
        calls=tuple(_call(item) for item in facts["calls"]),
        buffers={
            name: Buffer(RowKind(b["rows"]), b["width"], Elements(b["elements"]), b["group"])
            for name, b in facts["buffers"].items()
        },
        weights={
            name: Weight(tuple(_part(p) for p in w["parts"]), w["interleaved"])
            for name, w in facts["weights"].items()
        },
        caches=tuple(CacheLayer(**layer) for layer in facts["caches"]),
        logits=View(*facts["logits"]),
        hidden_states=None if facts["hidden_states"] is None else View(*facts["hidden_states"]),
        positions=facts["positions"],
    )


def _call(facts: Mapping[str, Any]) -> Call:
    return Call(
        Family(facts["family"]),
        RowKind(facts["rows"]),
        {role: View(*view) for role, view in facts["reads"].items()},
        {role: View(*view) for role, view in facts["writes"].items()},
        facts["weights"],
        facts["parameters"],
        tuple(facts["nodes"]),
    )


def _part(facts: Mapping[str, Any]) -> Part:
    own = dict(facts)
    kind = _PARTS[own.pop("kind")]
    for name in ("codes", "scales", "zeros", "values"):
        if own.get(name) is not None:
            own[name] = _stored(own[name])
    return kind(**own)


def _stored(facts: Mapping[str, Any]) -> Stored:
    return Stored(
        facts["dtype"],
        tuple(facts["shape"]),
        facts.get("file"),
        facts.get("offset", 0),
        base64.b64decode(facts.get("inline", "")),
    )
