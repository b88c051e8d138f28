"""`answer_grammar`: what a whole answer must look like, from reasoning, tools and content.

::

    reasoning ──> text with calls in it      tools, the model decides
              ──> calls                      tools, a call is required
              ──> content                    a grammar of the content
              ──> calls, or content          both

Text is any text but control tokens, and but what opens a call: that is read as a call then. Reasoning is any text
up to its closing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from onnxgen.errors import OptionError
from onnxgen.preprocess.harmony_grammar import HarmonyGrammar
from onnxgen.preprocess.lark_text import LarkText, one_of, pattern, quoted
from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers
from onnxgen.preprocess.tool_calls.grammar import ToolGrammar, ToolRule

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

_CONTENT = "content"


@dataclass(frozen=True, slots=True)
class GrammarText:
    """A grammar as text, as ``onnxgen.engine.constraints.grammar.Grammar`` takes it.

    Attributes:
        kind: What ``source`` is.
        source: The schema, the pattern, the grammar; a JSON list of texts for ``choice``.
    """

    kind: Literal["json_object", "json_schema", "regex", "lark", "choice", "llguidance"]
    source: str = ""


@dataclass(frozen=True, slots=True)
class HarmonyRule:
    """The answer is a row of harmony messages.

    Attributes:
        prompt: The prompt (`ChatPrompt.shadowed`), at whose end a message may have begun.
    """

    prompt: str


@dataclass(frozen=True, slots=True)
class ReasoningRule:
    """How an answer begins with reasoning.

    Attributes:
        markers: Those of the model.
        state: What the prompt says at its end: where it says nothing, an answer may begin with reasoning.
    """

    markers: ReasoningMarkers
    state: PromptState = PromptState.UNSAID


def answer_grammar(
    tokenizer: Tokenizer,
    *,
    content: GrammarText | None = None,
    tools: ToolRule | None = None,
    reasoning: ReasoningRule | HarmonyRule | None = None,
) -> GrammarText | None:
    """The grammar of a whole answer.

    Args:
        tokenizer: The model's: markers that it has as tokens are asked for as tokens.
        content: What the content must look like; None: it is free.
        tools: What may be called; None: nothing, and calls are not looked for.
        reasoning: How the model marks reasoning, if it does. A rule of a model that reasons belongs here also where
            its reasoning is not told from its answer: without one it cannot reason.

    Returns:
        None where nothing is asked of the answer.

    Raises:
        OptionError: The source of ``content`` is not what its kind says.
    """
    if content is None and tools is None:
        return None
    if reasoning is None and tools is None:
        return content
    ids = set[int]() if tools is None else set(tools.bound.characters)
    if isinstance(reasoning, ReasoningRule):
        marks = (reasoning.markers.opening_id, reasoning.markers.closing_id)
        ids |= {i for i in marks if i is not None}
    lark = LarkText(tokenizer, markers=ids)
    inner: list[dict[str, Any]] = []
    if isinstance(reasoning, HarmonyRule):
        symbol = None if content is None else _content(lark, content, inner)
        start = HarmonyGrammar(lark, reasoning.prompt).answer(symbol, tools)
    else:
        start = _answer(lark, content, tools, inner)
    if isinstance(reasoning, ReasoningRule):
        start = f"{_reasoning(lark, reasoning)} {start}"
    text = lark.text(start.strip())
    if not inner:
        return GrammarText("lark", text)
    return GrammarText("llguidance", json.dumps({"grammars": [{"lark_grammar": text}, *inner]}))


def _answer(
    lark: LarkText, content: GrammarText | None, tools: ToolRule | None, inner: list[dict[str, Any]]
) -> str:
    """What comes after the reasoning; grammars that cannot stand in another one are added to ``inner``."""
    calls = None if tools is None else ToolGrammar(lark, tools)
    if calls is not None and tools is not None and tools.is_required:
        return calls.required()
    if calls is not None and content is None:
        return calls.auto()
    assert content is not None, "an answer without calls has a grammar for its content"
    way = f"{lark.margin()} {_content(lark, content, inner)}"
    if calls is None:
        return way
    return one_of((lark.rule("ways", calls.required()), lark.rule("ways", way)))


def _reasoning(lark: LarkText, rule: ReasoningRule) -> str:
    """Reasoning, and further blocks of it as models write them."""
    markers = rule.markers
    if rule.state is PromptState.CLOSED:
        return ""
    block = lark.rule(
        "block", f"{lark.margin()} {lark.opening(markers.opening)} {lark.until(markers.closing)}"
    )
    if rule.state is PromptState.OPEN:
        return f"{lark.until(markers.closing)} {block}*"
    return f"{block}*"


def _content(lark: LarkText, content: GrammarText, inner: list[dict[str, Any]]) -> str:
    match content.kind:
        case "json_object":
            return lark.json({"type": "object"})
        case "json_schema":
            return lark.json(_json(content, dict | bool))
        case "regex":
            return lark.rule("CONTENT", pattern(content.source))
        case "choice":
            texts = [quoted(str(text)) for text in _json(content, list)]
            return lark.rule("CONTENT", one_of(texts))
        case "lark":
            inner.append({"name": _CONTENT, "lark_grammar": content.source})
            return f"@{_CONTENT}"
        case "llguidance":
            return _nested(content, inner)


def _nested(content: GrammarText, inner: list[dict[str, Any]]) -> str:
    if not content.source.lstrip().startswith("{"):
        inner.append({"name": _CONTENT, "lark_grammar": content.source})
        return f"@{_CONTENT}"
    listed = _json(content, dict).get("grammars")
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(g, dict) for g in cast("list[Any]", listed))
    ):
        raise OptionError("an llguidance grammar is Lark text, or a document with a list of grammars")
    first, *others = cast("list[dict[str, Any]]", listed)
    name = first.get("name") or _CONTENT
    inner += [{**first, "name": name}, *others]
    return f"@{name}"


def _json(content: GrammarText, kind: Any) -> Any:
    try:
        value = json.loads(content.source)
    except (ValueError, RecursionError) as cause:
        raise OptionError(f"the {content.kind} grammar is no JSON: {cause}") from cause
    if not isinstance(value, kind):
        raise OptionError(f"the {content.kind} grammar is {content.source!r:.60}, which is of another kind")
    return value
