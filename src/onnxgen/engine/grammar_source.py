"""`GrammarSource`: where an engine gets the grammars that requests ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onnxgen.engine.constraints.compiler import CompiledGrammar
from onnxgen.engine.constraints.grammar import Grammar


class GrammarSource(Protocol):
    """Compiles grammars; `GrammarCompiler` is one. May be used from several threads."""

    @property
    def vocab_size(self) -> int:
        """Tokens that masks are about: the width of the logits."""
        ...

    @property
    def eos_ids(self) -> Sequence[int]:
        """Tokens that end an answer."""
        ...

    def compile(self, grammar: Grammar, /) -> CompiledGrammar:
        """Make a grammar ready, or find that it is; waits until then.

        Raises:
            GrammarError: The grammar is wrong, impossible, not supported or too costly.
        """
        ...
