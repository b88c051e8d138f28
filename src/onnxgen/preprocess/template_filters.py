"""Filters, tests and methods of texts in chat templates: within the budget, and blind to shadows."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import jinja2
from jinja2.runtime import Context
from markupsafe import soft_str

from onnxgen.preprocess import shadow_text
from onnxgen.preprocess.template_limits import Budget, current_budget

_WIDTH_FILTERS = frozenset({"batch", "center", "indent", "round", "slice", "tojson", "truncate", "wordwrap"})
_SLOW_FILTERS = {"wordwrap": 100, "urlize": 100}
"""How much longer than others these may take for each character, where nothing can interrupt them."""
_LOOKING_FILTERS = frozenset(
    {"dictsort", "e", "escape", "float", "forceescape", "int", "max", "min", "pprint", "sort"}
    | {"striptags", "tojson", "urlencode", "urlize", "wordcount", "xmlattr"}
)
"""Filters that look at punctuation, and give nothing in which a template's own control tokens must stay."""
_WIDTH_METHODS = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})


def template_filters(filters: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """The filters for templates, made from jinja2's own."""
    own = {"replace": _replace, "string": _string, "tojson": _tojson, "trim": _trim}
    result: dict[str, Callable[..., Any]] = {**filters, **own}
    result["title"] = shadow_text.by_place(result["title"])
    for name in _LOOKING_FILTERS:
        result[name] = shadow_text.on_plain(result[name])
    return {name: _limited_filter(name, function) for name, function in result.items()}


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    if isinstance(indent, str):
        current_budget().check_size(len(indent) * current_budget().measure(value))
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _trim(value: Any, chars: str | None = None) -> str:
    return shadow_text.text_method(soft_str(value), "strip", (chars,), {})


def _replace(value: Any, old: str, new: str, count: int | None = None) -> str:
    text = soft_str(value)
    limit = -1 if count is None else count
    return shadow_text.text_method(text, "replace", (str(old), str(new), limit), {})


def _string(value: Any) -> str:
    return soft_str(shadow_text.written(value))


def _differ(left: Any, right: Any) -> bool:
    return not shadow_text.same(left, right)


def _is_in(value: Any, container: Any) -> bool:
    return shadow_text.contains(container, value)


TESTS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **dict.fromkeys(("eq", "equalto", "=="), shadow_text.same),
        **dict.fromkeys(("ne", "!="), _differ),
        "in": _is_in,
    }
)
"""Tests that compare texts."""


def _limited_filter(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def limited(*args: Any, **kwargs: Any) -> Any:
        budget = current_budget()
        # Context and environment come first for filters that ask for them, and measure as nothing.
        values = [
            arg for arg in (*args, *kwargs.values()) if not isinstance(arg, Context | jinja2.Environment)
        ]
        budget.check_size(sum(budget.measure(value) for value in values))
        if name in _WIDTH_FILTERS:
            budget.check_width(*values[1:])
        if name in _SLOW_FILTERS:
            budget.check_size(_SLOW_FILTERS[name] * sum(budget.measure(value) for value in values))
        elif name == "format":
            budget.check_format(str(values[0]), values[1:])
        elif name == "replace" and len(values) >= 3:
            _check_replace(budget, str(values[0]), values[1], values[2])
        elif name == "join" and len(values) >= 2:
            _check_join(budget, str(values[1]), values[0])
        result = function(*args, **kwargs)
        budget.check_size(length(result))
        return result

    return limited


def check_method(budget: Budget, method: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse a method of a text whose result would be too large."""
    text = getattr(method, "__self__", None)
    name = getattr(method, "__name__", "")
    values = [*args, *kwargs.values()]
    if not isinstance(text, str):
        return
    if name in _WIDTH_METHODS:
        budget.check_width(*values)
    elif name == "replace" and len(values) >= 2:
        _check_replace(budget, text, values[0], values[1])
    elif name == "join" and values:
        _check_join(budget, text, values[0])
    elif name == "translate" and values and isinstance(values[0], dict):
        widest = max((length(value) for value in cast("dict[Any, Any]", values[0]).values()), default=0)
        budget.check_size(len(text) * widest)


def _check_replace(budget: Budget, text: str, old: Any, new: Any) -> None:
    count = shadow_text.plain(text).count(shadow_text.plain(str(old)))
    budget.check_size(len(text) + count * length(new))


def _check_join(budget: Budget, separator: str, items: Any) -> None:
    if isinstance(items, Iterable) and hasattr(items, "__len__"):
        budget.check_size(budget.measure(items) + len(separator) * length(items))
    elif len(separator) > 1000:
        budget.check_size(len(separator) * 1000)


def check_product(budget: Budget, left: Any, right: Any) -> None:
    """Refuse a product that would be too large."""
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int):
            budget.check_size(length(value) * max(times, 0))
    budget.check_int(left)
    budget.check_int(right)


def check_power(budget: Budget, base: Any, exponent: Any) -> None:
    """Refuse a power that would be too large."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        budget.check_int(base)
        budget.check_int(1 << min(base.bit_length() * exponent, 10_000))


def length(value: Any) -> int:
    """Characters or items of a value, 0 for those that have none."""
    return len(cast("Sequence[Any]", value)) if isinstance(value, str | list | tuple | dict) else 0
