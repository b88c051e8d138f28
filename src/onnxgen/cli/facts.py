"""Nested facts as text: what ``show`` and ``doctor`` print where JSON is not asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onnxgen.foundations.disk import format_bytes

Facts = dict[str, Any]
_BYTES = "_bytes"
_OF_VALUES = frozenset(("inputs", "outputs"))
"""Facts whose keys are names of values in a graph, written as they are."""


def facts_text(facts: Mapping[str, Any], *, indent: str = "", verbatim: bool = False) -> str:
    """Write facts as lines ``key: value``, nested ones indented. What is None or empty is left out.

    ``verbatim`` writes the keys as they are; without it underscores become spaces.
    """
    lines: list[str] = []
    for key, value in facts.items():
        if value is None or value in ({}, [], ()):
            continue
        # a dot marks the name of a tensor or package, which is written as it is
        label = key if verbatim or "." in key else key.removesuffix(_BYTES).replace("_", " ")
        if isinstance(value, Mapping):
            lines.append(f"{indent}{label}:")
            lines.append(
                facts_text(cast("Mapping[str, Any]", value), indent=indent + "  ", verbatim=key in _OF_VALUES)
            )
        else:
            lines.append(f"{indent}{label}: {_value_text(key, value)}")
    return "\n".join(line for line in lines if line)


def _value_text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and key.endswith(_BYTES):
        return format_bytes(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(str(item) for item in cast("Sequence[Any]", value))
    return str(value)
