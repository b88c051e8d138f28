"""Which linear layer of a graph each pair of an adapter belongs to, and which of its columns.

Layers have one name in checkpoints and another one in graphs, and a graph may compute several by one product::

    model.layers.3.self_attn.k_proj        /model/layers.3/attn/qkv_proj/MatMul     [ q | k | v ]
                                                                                    key's columns begin behind query's

So what is added to a product is put together of the pairs of its parts. Their ranks add up, and B is zero where a
part has no columns::

    q: A1, B1                    A = [ A1 ]        B = [ B1  0  ]     query's columns
    v: A2, B2                        [ A2 ]            [ 0   0  ]     key's
                                                       [ 0   B2 ]     value's
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from onnxgen.backends.adapters import Adapter, LoraPair
from onnxgen.errors import ModelFileError

_LAYER = re.compile(r"(?:^|.*[./])(?:layers|h|blocks)[./](\d+)[./](.+)$")
_GROUPS: Mapping[str, str] = MappingProxyType(
    {"self_attn": "attn", "attention": "attn", "feed_forward": "mlp"}
)
_FUSED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "attn.qkv_proj": ("attn.q_proj", "attn.k_proj", "attn.v_proj"),
        "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
    }
)
_SHOWN = 4

Spot = tuple[int | None, str]
"""A layer (None: outside of layers), and a linear layer in it, such as ``attn.q_proj``."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A product of a graph with a constant matrix.

    Attributes:
        node: Its name, which ends with the operator.
        in_features: Width of its input.
        out_features: Width of its result.
        heads: Query heads and key-value heads of the attention that it makes queries, keys and values for.
    """

    node: str
    in_features: int
    out_features: int
    heads: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Place:
    linear: Linear
    start: int
    width: int


def spot_of_node(node: str) -> Spot | None:
    """Which linear layer a product computes, by its name; None where that does not say."""
    path = node.strip("/").rpartition("/")[0]
    return None if not path else spot_of_module(path.replace("/", "."))


def spot_of_module(module: str) -> Spot:
    """The layer, and the linear layer in it, of a checkpoint's module."""
    match = _LAYER.match(module)
    if match is None:
        return None, module.rpartition(".")[2]
    parts = match[2].split(".")
    return int(match[1]), ".".join([_GROUPS.get(part, part) for part in parts])


def place_pairs(adapter: Adapter, linears: Sequence[Linear]) -> dict[str, LoraPair]:
    """What is added to which product, by its node's name.

    Raises:
        ModelFileError: A module is not in the model, or has other sizes there.
    """
    wholes = {spot: linear for linear in linears if (spot := spot_of_node(linear.node)) is not None}
    places = _places(wholes)
    pieces: dict[str, list[tuple[_Place, LoraPair]]] = {}
    unknown: list[str] = []
    for module, pair in adapter.pairs.items():
        spot = spot_of_module(module)
        found = _split(adapter, module, spot, pair, wholes, places)
        if not found:
            unknown.append(module)
        for place, own in found:
            pieces.setdefault(place.linear.node, []).append((place, own))
    if unknown:
        raise ModelFileError(_why_unknown(adapter, unknown, wholes))
    return {node: _joined(own) for node, own in pieces.items()}


def _places(wholes: Mapping[Spot, Linear]) -> dict[Spot, _Place]:
    places: dict[Spot, _Place] = {}
    for (layer, name), linear in wholes.items():
        widths = _part_widths(name, linear)
        start = 0
        for part, width in zip(_FUSED.get(name, (name,)), widths, strict=False):
            places[layer, part] = _Place(linear, start, width)
            start += width
    return places


def _part_widths(name: str, linear: Linear) -> Sequence[int]:
    if name not in _FUSED:
        return [linear.out_features]
    if name == "mlp.gate_up_proj":
        return [linear.out_features // 2] * 2
    if linear.heads is None:
        return []
    heads, kv_heads = linear.heads
    head_dim = linear.out_features // (heads + 2 * kv_heads)
    return [heads * head_dim, kv_heads * head_dim, kv_heads * head_dim]


def _split(
    adapter: Adapter,
    module: str,
    spot: Spot,
    pair: LoraPair,
    wholes: Mapping[Spot, Linear],
    places: Mapping[Spot, _Place],
) -> list[tuple[_Place, LoraPair]]:
    """The parts of a pair, each for columns of one product; none where the model has no such module."""
    layer, name = spot
    if spot in wholes:
        whole = wholes[spot]
        found = [_Place(whole, 0, whole.out_features)]
    elif spot in places:
        found = [places[spot]]
    else:
        found = [places[layer, part] for part in _FUSED.get(name, ()) if (layer, part) in places]
        if len(found) != len(_FUSED.get(name, ())):
            return []
    if not found:
        return []
    _check(adapter, module, pair, found)
    starts = np.cumsum([0, *(place.width for place in found)]).tolist()
    return [
        (place, LoraPair(pair.a, pair.b[start : start + place.width]))
        for place, start in zip(found, starts, strict=False)
    ]


def _check(adapter: Adapter, module: str, pair: LoraPair, found: Sequence[_Place]) -> None:
    columns, rows = found[0].linear.in_features, sum(place.width for place in found)
    for name, shape, expected in (
        ("lora_A", pair.a.shape, (pair.rank, columns)),
        ("lora_B", pair.b.shape, (rows, pair.rank)),
    ):
        if shape != expected:
            raise ModelFileError(
                f"{adapter.source}: {name} of {module} is {list(shape)}, expected {list(expected)} for this model; the "
                "adapter was trained on another one"
            )


def _joined(pieces: Sequence[tuple[_Place, LoraPair]]) -> LoraPair:
    first, pair = pieces[0]
    if len(pieces) == 1 and first.width == first.linear.out_features:
        return LoraPair(np.ascontiguousarray(pair.a), np.ascontiguousarray(pair.b))
    b = np.zeros((first.linear.out_features, sum(own.rank for _, own in pieces)), np.float32)
    at = 0
    for place, own in pieces:
        b[place.start : place.start + place.width, at : at + own.rank] = own.b
        at += own.rank
    return LoraPair(np.concatenate([own.a for _, own in pieces]), b)


def _why_unknown(adapter: Adapter, unknown: Sequence[str], wholes: Mapping[Spot, Linear]) -> str:
    modules = _some(unknown)
    layers = [layer for layer, _ in wholes if layer is not None]
    kinds = _some(sorted({name for _, name in wholes}))
    has = (
        f"{max(layers) + 1} layers with {kinds}"
        if layers
        else kinds or "no linear layers that can be told by name"
    )
    which = "all" if len(unknown) == len(adapter.pairs) else f"{len(unknown)} of {len(adapter.pairs)}"
    return (
        f"{adapter.source}: the model does not have the modules that the adapter changes ({which}: {modules}); it has "
        f"{has}. The adapter was trained on another model, or this one was exported under names of its own"
    )


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
