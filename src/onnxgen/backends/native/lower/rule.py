"""Rules for operators, by domain and name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import Meaning
from onnxgen.backends.native.lower.state import Lowering

MICROSOFT = "com.microsoft"

Inputs = Sequence[Meaning | None]
Rule = Callable[[Lowering, ir.Node, Inputs], Sequence[Meaning]]
"""Gives a meaning for each output of the node, as far as it has any; raises `DeclineError`."""


class RuleTable:
    """The rules of one family of operators."""

    def __init__(self) -> None:
        self._rules: dict[tuple[str, str], Rule] = {}

    def operator(self, op_type: str, *domains: str) -> Callable[[Rule], Rule]:
        """Register a rule for an operator of the standard, or of the domains given."""

        def register(rule: Rule) -> Rule:
            for domain in domains or ("",):
                self._rules[domain, op_type] = rule
            return rule

        return register

    @property
    def rules(self) -> Mapping[tuple[str, str], Rule]:
        """All rules."""
        return MappingProxyType(self._rules)


def at(inputs: Inputs, index: int) -> Meaning | None:
    """An input; None where it is left out."""
    return inputs[index] if index < len(inputs) else None
