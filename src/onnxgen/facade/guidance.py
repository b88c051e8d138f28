"""What ``set_guidance`` is given, as a grammar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError, OptionError
from onnxgen.foundations.json_text import parse_json
from onnxgen.foundations.suggest import did_you_mean


def grammar_of(kind: str, data: str, *, fast_forward: bool) -> Grammar | None:
    """The grammar; None where both texts are empty.

    Args:
        kind: ``json_schema``, ``regex`` or ``lark_grammar``, as onnxruntime-genai has them, ``choice`` (a JSON list of
            texts) or ``llguidance`` (a document of that library's own).
        data: The grammar itself.
        fast_forward: Whether tokens that must follow are written without asking the model.

    Raises:
        OptionError: One of the two is missing, or there is no such kind.
        GrammarError: The data is none of that kind.
    """
    if not isinstance(cast("object", kind), str) or not isinstance(cast("object", data), str):
        raise OptionError(f"guidance is two texts, type and data; got {kind!r:.60} and {data!r:.60}")
    if not kind and not data:
        return None
    if not kind or not data:
        raise OptionError(
            f"guidance needs both type and data; got type {kind!r:.60} and {len(data)} characters of data"
        )
    if kind not in _KINDS:
        raise OptionError(
            f"guidance of type {kind!r} was asked for; there are {', '.join(_KINDS)}{did_you_mean(kind, _KINDS)}"
        )
    return _KINDS[kind](data).with_fast_forward(fast_forward)


def _choice(data: str) -> Grammar:
    texts = parse_json(data, source="guidance of type 'choice'", error=GrammarError)
    if not isinstance(texts, list):
        raise GrammarError(f"guidance of type 'choice' is a JSON list of texts, got {data!r:.60}")
    return Grammar.choice(cast("list[str]", texts))


_KINDS: Mapping[str, Callable[[str], Grammar]] = {
    "json_schema": Grammar.json_schema,
    "regex": Grammar.regex,
    "lark_grammar": Grammar.lark,
    "choice": _choice,
    "llguidance": Grammar.llguidance,
}
