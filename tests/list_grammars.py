"""Grammars whose answers are a few lists of tokens: what must come of them can be said exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError


def lists(*answers: Sequence[int], fast_forward: bool = True) -> Grammar:
    """The grammar of these answers."""
    return Grammar("llguidance", json.dumps([list(answer) for answer in answers]), fast_forward)


class ListCompiler:
    """Makes states of such grammars; refuses those that say so.

    Args:
        vocab_size: Width of the logits.
        eos_ids: Tokens that end an answer.
    """

    def __init__(self, vocab_size: int, eos_ids: Sequence[int]) -> None:
        self.vocab_size, self.eos_ids = vocab_size, tuple(eos_ids)
        self.compiled: list[Grammar] = []

    def compile(self, grammar: Grammar) -> ListGrammar:
        answers = json.loads(grammar.source)
        if not answers:
            raise GrammarError("the grammar has no answers")
        self.compiled.append(grammar)
        return ListGrammar(self, grammar, [tuple(answer) for answer in answers])


class ListGrammar:
    def __init__(self, compiler: ListCompiler, grammar: Grammar, answers: list[tuple[int, ...]]) -> None:
        self.compiler, self.grammar, self.answers = compiler, grammar, answers

    def new_state(self) -> ListState:
        return ListState(self, ())


class ListState:
    """As `GrammarState`, from the definition: what may follow is looked up in all answers, each time anew."""

    def __init__(self, own: ListGrammar, tokens: tuple[int, ...]) -> None:
        self.own, self.tokens = own, tokens
        self.breaks_at: int | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def accepts_end(self) -> bool:
        return self._body(self.tokens) in self.own.answers

    @property
    def is_complete(self) -> bool:
        return self.accepts_end and not self._next(self.tokens)

    def follow(self, answer) -> None:
        tokens = tuple(int(token) for token in answer)
        for length in range(len(tokens)):
            if tokens[length] not in self._next(tokens[:length]) and not self._ends(tokens, length):
                raise GrammarError(f"token {tokens[length]} may not come at {length}")
        self.tokens = tokens

    def advance(self, tokens) -> None:
        self.follow((*self.tokens, *tokens))

    def fill(self, mask) -> None:
        self._fill(mask, self.tokens)

    def fill_along(self, masks, draft) -> None:
        for length in range(len(draft) + 1):
            self._fill(masks[length], (*self.tokens, *draft[:length]))
            if length < len(draft) and not self._may(self.tokens, draft[: length + 1]):
                return

    def valid_prefix(self, draft) -> int:
        count = 0
        while count < len(draft) and self._may(self.tokens, draft[: count + 1]):
            count += 1
        return count

    def forced(self) -> tuple[int, ...]:
        if not self.own.grammar.fast_forward:
            return ()
        tokens = self.tokens
        while tokens not in self.own.answers and len(follow := self._next(tokens)) == 1:
            tokens = (*tokens, *follow)
        return tokens[len(self.tokens) :]

    def fork(self) -> ListState:
        return ListState(self.own, self.tokens)

    def _fill(self, mask, tokens) -> None:
        if tokens and tokens[-1] == 0 and self.own.answers[0][:1] == (0,):
            raise GrammarError("the grammar broke, as it was told to")
        mask[:] = 0
        ends = self.own.compiler.eos_ids if self._body(tokens) in self.own.answers else ()
        for token in {*self._next(tokens), *ends}:
            mask[token // 32] |= np.uint32(1 << token % 32)

    def _next(self, tokens) -> set[int]:
        size = len(tokens)
        return {a[size] for a in self.own.answers if len(a) > size and a[:size] == tuple(tokens)}

    def _body(self, tokens):
        """The answer without ends behind it."""
        while tokens and tokens[-1] in self.own.compiler.eos_ids:
            tokens = tokens[:-1]
        return tuple(tokens)

    def _ends(self, tokens, length) -> bool:
        return tokens[length] in self.own.compiler.eos_ids and tokens[:length] in self.own.answers

    def _may(self, tokens, draft) -> bool:
        before, last = (*tokens, *draft[:-1]), draft[-1]
        ends = self.own.compiler.eos_ids if before in self.own.answers else ()
        return last in self._next(before) or last in ends
