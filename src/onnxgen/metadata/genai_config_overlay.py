"""Changes on top of a ``genai_config.json``: one JSON document merged over another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from onnxgen.metadata.document import Place, read_array, read_object
from onnxgen.metadata.genai_config_session import canonical_provider_name

_PROVIDERS = "provider_options"
_EITHER = {"dynamic_batching": "static_batching", "static_batching": "dynamic_batching"}


def merge_overlay(base: object, overlay: object, place: Place) -> dict[str, Any]:
    """Merge ``overlay`` over ``base``; neither is changed.

    Objects are merged key by key, all else is replaced. Two places differ, as they do in
    onnxruntime-genai: ``provider_options`` are joined by provider, and of the two ways of batching in
    ``engine`` the later one stays.

    Raises:
        MetadataError: The overlay, or its ``provider_options``, has the wrong shape.
    """
    result = dict(cast("Mapping[str, Any]", base))
    for key, change in read_object(overlay, place).items():
        before = result.get(key)
        if key == _PROVIDERS and isinstance(before, list):
            result[key] = _merge_providers(cast("list[Any]", before), change, place.key(key))
        elif isinstance(before, Mapping) and isinstance(change, Mapping):
            result[key] = merge_overlay(before, change, place.key(key))
        else:
            result[key] = change
        if key in _EITHER and place.path == "engine":
            result.pop(_EITHER[key], None)
    return result


def _merge_providers(base: list[Any], overlay: object, place: Place) -> list[Any]:
    merged: dict[str, tuple[str, dict[str, Any]]] = {}
    for index, item in enumerate([*base, *read_array(overlay, place)]):
        # the base is known to be well formed, so a wrong shape is the overlay's
        at = place.item(index - len(base))
        for name, options in read_object(item, at).items():
            canonical = canonical_provider_name(name)
            shown, before = merged.get(canonical, (name, {}))
            merged[canonical] = (shown, {**before, **read_object(options, at.key(name))})
    return [{shown: options} for shown, options in merged.values()]
