"""The jinja2 environment that chat templates are written for, in a sandbox that also minds its size.

Templates of the Hugging Face hub expect ``trim_blocks``, ``lstrip_blocks``, loop controls, a
``{% generation %}`` block, a ``tojson`` that leaves HTML characters alone, ``raise_exception`` and
``strftime_now``. They come with the model, from anybody, so they run in jinja2's immutable sandbox, with
``dict`` and ``namespace`` that reject underscore names, and within a `Budget`. Texts they work on may be
shadowed (`shadow_text`), which they never notice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from onnxgen.preprocess import shadow_text
from onnxgen.preprocess.template_filters import (
    TESTS,
    check_method,
    check_power,
    check_product,
    length,
    template_filters,
)
from onnxgen.preprocess.template_limits import current_budget

_COMPARISONS = frozenset({"eq", "ne", "in", "notin"})


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
        self.filters.update(template_filters(self.filters))
        self.tests.update(TESTS)
        names = cast("dict[str, Any]", self.globals)
        del names["lipsum"]
        names.update(raise_exception=_raise_exception, dict=_SafeDict(), namespace=_SafeNamespace)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Do ``+ * ** %`` if the result will be of a reasonable size."""
        budget = current_budget()
        budget.tick()
        if operator == "+":
            budget.check_size(length(left) + length(right))
        elif operator == "%" and isinstance(left, str):
            budget.check_format(
                left, cast("tuple[Any, ...]", right) if isinstance(right, tuple) else (right,)
            )
        elif operator == "*":
            check_product(budget, left, right)
        elif operator == "**":
            check_power(budget, left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: D102, N805, PYI063
        # The names keep clear of the keyword arguments of the called function, as in the base class.
        budget = current_budget()
        budget.tick()
        check_method(budget, __obj, args, kwargs)
        text = getattr(__obj, "__self__", None)
        if isinstance(text, str) and (shadow_text.shadowed(text) or shadow_text.shadowed(args)):
            __obj = shadow_text.method(text, __obj.__name__)
        result = super().call(__context, __obj, *args, **kwargs)
        budget.check_size(length(result))
        return result

    def joined(self, *values: Any) -> str:
        """Concatenate as ``~`` does."""
        budget = current_budget()
        budget.check_size(sum(budget.measure(value) for value in values))
        return "".join(str(shadow_text.written(value)) for value in values)

    def compares(self, operator: str, left: Any, right: Any) -> Any:
        """Do ``==``, ``!=``, ``in`` and ``not in``."""
        match operator:
            case "eq":
                return shadow_text.same(left, right)
            case "ne":
                return not shadow_text.same(left, right)
            case "in":
                return shadow_text.contains(right, left)
            case _:
                return not shadow_text.contains(right, left)

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
        # ``~`` becomes one, so that neither runs past the budget; so do comparisons, for shadowed texts.
        for loop in source.find_all(nodes.For):
            chars = nodes.Const(sum(len(text.data) for text in loop.find_all(nodes.TemplateData)))
            loop.body.insert(0, nodes.ExprStmt(_environment_call("tick", [chars])).set_lineno(loop.lineno))
        _rewrite_below(source)
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
    return shadow_text.written(value)


def _raise_exception(message: object) -> None:
    raise RaisedByTemplate(str(message))


def _environment_call(name: str, args: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name), args, [], None, None)


def _rewrite_below(node: nodes.Node) -> None:
    for field, value in node.iter_fields():
        if isinstance(value, list):
            children = cast("list[Any]", value)
            for index, child in enumerate(children):
                if isinstance(child, nodes.Node):
                    children[index] = _rewritten(child)
        elif isinstance(value, nodes.Node):
            setattr(node, field, _rewritten(value))


def _rewritten(node: nodes.Node) -> nodes.Node:
    _rewrite_below(node)
    if isinstance(node, nodes.Concat):
        return _environment_call("joined", node.nodes).set_lineno(node.lineno)
    if isinstance(node, nodes.Compare) and len(node.ops) == 1 and node.ops[0].op in _COMPARISONS:
        operator, right = node.ops[0].op, node.ops[0].expr
        return _environment_call("compares", [nodes.Const(operator), node.expr, right]).set_lineno(
            node.lineno
        )
    return node
