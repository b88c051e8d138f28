"""Names of per-layer inputs and outputs, listed one by one, to patterns with ``%d``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnxgen.metadata.document import Place

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class LayerNames:
    """Patterns of a cache's names.

    Attributes:
        key: Pattern of the keys; None where keys and values are one tensor.
        value: Pattern of the values; None like ``key``.
        combined: Pattern of tensors that hold both.
        num_layers: One more than the highest layer.
    """

    key: str | None
    value: str | None
    combined: str | None
    num_layers: int


def layer_names(names: Sequence[str], place: Place) -> LayerNames:
    """Find the patterns behind a list such as ``past.0.key, past.0.value, past.1.key, ...``.

    Layers without a cache may be missing.

    Raises:
        MetadataError: The names do not follow one or two patterns.
    """
    layers_by_pattern = _patterns(names, place)
    num_layers = 1 + max(max(layers) for layers in layers_by_pattern.values())
    match list(layers_by_pattern):
        case [combined]:
            return LayerNames(None, None, combined, num_layers)
        case [first, second]:
            if layers_by_pattern[first] != layers_by_pattern[second]:
                raise place.error(f"names other layers by {first!r} than by {second!r}")
            # where they part, one says "key" and the other "value"; where neither does, keys stand first
            parting = next(
                ((a, b) for a, b in zip(first.lower(), second.lower(), strict=False) if a != b), None
            )
            key, value = (second, first) if parting == ("v", "k") else (first, second)
            return LayerNames(key, value, None, num_layers)
        case patterns:
            raise place.error(
                f"must follow one or two patterns, found {len(patterns)}: {', '.join(patterns[:4])}"
            )


def _patterns(names: Sequence[str], place: Place) -> dict[str, set[int]]:
    if not names:
        raise place.error("is empty; a decoder has a cache")
    numbers = [list(_NUMBER.finditer(name)) for name in names]
    for index, found in enumerate(numbers):
        if not found:
            raise place.item(index).error(f"is {names[index]!r}, which has no number of a layer")
    candidates: list[dict[str, set[int]]] = []
    # names may have other numbers too ("kv2.7.key"): the layer is the one that leaves the fewest patterns,
    # and in a model of one layer, where all do, the smallest one
    for which in range(min(map(len, numbers))):
        patterns: dict[str, set[int]] = {}
        for name, found in zip(names, numbers, strict=True):
            start, end = found[which].span()
            patterns.setdefault(f"{name[:start]}%d{name[end:]}", set()).add(int(name[start:end]))
        candidates.append(patterns)
    return min(candidates, key=lambda patterns: (len(patterns), max(map(max, patterns.values()))))
