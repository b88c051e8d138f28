"""The jinja2 environment that chat templates are written for, in a sandbox that also minds its size.

Templates of the Hugging Face hub expect ``trim_blocks``, ``lstrip_blocks``, loop controls, a
``{% generation %}`` block, a ``tojson`` that leaves HTML characters alone, ``raise_exception`` and
``strftime_now``. They come with the model, from anybody, so they run in jinja2's immutable sandbox, with
``dict`` and ``namespace`` that reject underscore names, and within a `Budget`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from onnxgen.preprocess.template_limits import Budget, current_budget

_WIDTH_FILTERS = frozenset({"batch", "center", "indent", "round", "slice", "tojson", "truncate", "wordwrap"})
_SLOW_FILTERS = {"wordwrap": 100, "urlize": 100}
"""How much longer than others these may take for each character, where nothing can interrupt them."""
_WIDTH_METHODS = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})


class RaisedByTemplate(jinja2.TemplateError):
    """The template called ``raise_exception``."""


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """Sandboxed environment for chat templates; use it inside `template_limits.spending`."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationBlock, loopcontrols],
            finalize=_finalize,
        )
        for name, function in list(self.filters.items()):
            self.filters[name] = _limited_filter(name, function)
        self.filters["tojson"] = _limited_filter("tojson", _tojson)
        names = cast("dict[str, Any]", self.globals)
        del names["lipsum"]
        names.update(raise_exception=_raise_exception, dict=_SafeDict(), namespace=_SafeNamespace)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Do ``+ * ** %`` if the result will be of a reasonable size."""
        budget = current_budget()
        budget.tick()
        if operator == "+":
            budget.check_size(_length(left) + _length(right))
        elif operator == "%" and isinstance(left, str):
            budget.check_format(
                left, cast("tuple[Any, ...]", right) if isinstance(right, tuple) else (right,)
            )
        elif operator == "*":
            _check_product(budget, left, right)
        elif operator == "**":
            _check_power(budget, left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102, N805, PYI063
        # The names keep clear of the keyword arguments of the called function, as in the base class.
        budget = current_budget()
        budget.tick()
        _check_method(budget, __obj, args, kwargs)
        result = super().call(__context, __obj, *args, **kwargs)
        budget.check_size(_length(result))
        return result

    def joined(self, *values: Any) -> str:
        """Concatenate as ``~`` does."""
        budget = current_budget()
        budget.check_size(sum(budget.measure(value) for value in values))
        return "".join(map(str, values))

    def tick(self, chars: int) -> None:
        """Count the fixed text of a loop's body, in each turn; `call` has looked at the clock already."""
        current_budget().spend(chars)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Stand in for ``str.format`` and ``str.format_map`` as the sandbox does, within the budget."""
        function = super().wrap_str_format(value)
        if function is None:
            return None

        def limited(*args: Any, **kwargs: Any) -> str:
            current_budget().check_format(value.__self__, (*args, *kwargs.values()))
            return function(*args, **kwargs)

        return limited

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        # jinja2 keeps this method for overriding. Loops get a call into the environment each turn, and
        # ``~`` becomes one, so that neither runs past the budget.
        for loop in source.find_all(nodes.For):
            chars = nodes.Const(sum(len(text.data) for text in loop.find_all(nodes.TemplateData)))
            loop.body.insert(0, nodes.ExprStmt(_environment_call("tick", [chars])).set_lineno(loop.lineno))
        _replace_concats(source)
        return super()._generate(source, *args, **kwargs)


class GenerationBlock(Extension):
    """``{% generation %} ... {% endgeneration %}``: marks what the model says; renders as its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Give the nodes of the block's body."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _SafeDict:
    """``dict(...)`` in templates, without the attributes of the type."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _SafeNamespace(Namespace):
    """``namespace(...)`` in templates, without underscore names."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # pyright: ignore[reportSelfClsParameterName]
        self, positional = args[0], args[1:]
        attributes = dict(*positional, **kwargs)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace takes no name that begins with an underscore, got {name!r}")


@jinja2.pass_context
def _finalize(context: Context, value: Any) -> Any:
    # With the context as an argument jinja2 does not compute outputs while it compiles.
    budget = current_budget()
    budget.spend(budget.measure(value))
    return value


def _raise_exception(message: object) -> None:
    raise RaisedByTemplate(str(message))


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
        elif name in _SLOW_FILTERS:
            budget.check_size(_SLOW_FILTERS[name] * sum(budget.measure(value) for value in values))
        elif name == "format":
            budget.check_format(str(values[0]), values[1:])
        elif name == "replace" and len(values) >= 3:
            _check_replace(budget, str(values[0]), values[1], values[2])
        elif name == "join" and len(values) >= 2:
            _check_join(budget, str(values[1]), values[0])
        result = function(*args, **kwargs)
        budget.check_size(_length(result))
        return result

    return limited


def _check_method(budget: Budget, method: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
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
        widest = max((_length(value) for value in cast("dict[Any, Any]", values[0]).values()), default=0)
        budget.check_size(len(text) * widest)


def _check_replace(budget: Budget, text: str, old: Any, new: Any) -> None:
    budget.check_size(len(text) + text.count(str(old)) * _length(new))


def _check_join(budget: Budget, separator: str, items: Any) -> None:
    if isinstance(items, Iterable) and hasattr(items, "__len__"):
        budget.check_size(budget.measure(items) + len(separator) * _length(items))
    elif len(separator) > 1000:
        budget.check_size(len(separator) * 1000)


def _check_product(budget: Budget, left: Any, right: Any) -> None:
    for value, times in ((left, right), (right, left)):
        if isinstance(value, str | list | tuple) and isinstance(times, int):
            budget.check_size(_length(value) * max(times, 0))
    budget.check_int(left)
    budget.check_int(right)


def _check_power(budget: Budget, base: Any, exponent: Any) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        budget.check_int(base)
        budget.check_int(1 << min(base.bit_length() * exponent, 10_000))


def _length(value: Any) -> int:
    return len(cast("Sequence[Any]", value)) if isinstance(value, str | list | tuple | dict) else 0


def _environment_call(name: str, args: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), args, [], None, None)


def _replace_concats(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            children = cast("list[Any]", value)
            for index, child in enumerate(children):
                if isinstance(child, nodes.Node):
                    children[index] = _without_concat(child)
        elif isinstance(value, nodes.Node):
            setattr(node, field, _without_concat(value))


def _without_concat(node: nodes.Node) -> nodes.Node:
    _replace_concats(node)
    if isinstance(node, nodes.Concat):
        return _environment_call("joined", node.nodes).set_lineno(node.lineno)
    return node
