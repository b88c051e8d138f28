"""`GrammarLimits`: how much a grammar may cost to compile, to keep and to follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrammarLimits:
    """Bounds for grammars that anybody may send.

    Attributes:
        compile_timeout_s: So long a caller waits for a grammar; then it is refused. Work that has begun ends
            by its fuel.
        cached_grammars: So many compiled grammars (and refusals) are kept, the last used ones.
        cached_bytes: Their sources have at most this many bytes together.
        threads: So many grammars are compiled at the same time.
        lexer_fuel: Work on regular expressions while compiling (about 50,000 a millisecond).
        step_lexer_fuel: The same, for one mask (about 14,000 a millisecond).
        step_items: Items of the parser for one mask.
        row_items: Items of the parser for one byte.
        lexer_states: States of regular expressions that a grammar may reach (1 to 2 KB each).
        grammar_symbols: Symbols in all rules of a grammar.
    """

    compile_timeout_s: float = 10.0
    cached_grammars: int = 256
    cached_bytes: int = 16 << 20
    threads: int = 2
    lexer_fuel: int = 1_000_000
    step_lexer_fuel: int = 200_000
    step_items: int = 50_000
    row_items: int = 2_000
    lexer_states: int = 50_000
    grammar_symbols: int = 500_000
