"""`Prompt`: a text, or token ids; and reading one or several of them as callers give them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import cast

from onnxgen.errors import OptionError

Prompt = str | Sequence[int]
"""A text, or token ids, which are taken as they are: nothing is put before or after them."""

Prompts = Prompt | Sequence[Prompt]
"""One prompt or several."""


def prompts_of(given: object, *, name: str = "prompts") -> tuple[list[str | list[int]], bool]:
    """Prompts as callers give them, and whether it is a single one.

    Args:
        given: A text, token ids, or several of either, also mixed.
        name: What the caller calls them.

    Raises:
        OptionError: They are something else, or one of several has no tokens.
    """
    if isinstance(given, str):
        return [given], True
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise OptionError(f"{name} must be a text, token ids, or a list of either, got {given!r:.60}")
    items = list(cast("Iterable[object]", given))
    if items and _is_id(items[0]):
        return [_ids(items, name)], True
    return [
        each if isinstance(each, str) else _several_ids(each, f"{name}[{i}]") for i, each in enumerate(items)
    ], False


def _several_ids(given: object, name: str) -> list[int]:
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise OptionError(f"{name} must be a text or token ids, got {given!r:.60}")
    items = list(cast("Iterable[object]", given))
    if not items:
        raise OptionError(f"{name} has no tokens, so there is nothing to begin with")
    return _ids(items, name)


def _ids(items: list[object], name: str) -> list[int]:
    if set(map(type, items)) == {int}:  # nearly always, and a hundred times as fast as asking each one
        return cast("list[int]", items)
    for at, item in enumerate(items):
        if not _is_id(item):
            raise OptionError(f"{name} must hold token ids, which are integers, got {item!r:.60} at {at}")
    return [int(cast(int, item)) for item in items]


def _is_id(item: object) -> bool:
    # numpy's integers are Integral too; a bool is one by inheritance, and no token
    return not isinstance(item, bool) and isinstance(item, Integral)
