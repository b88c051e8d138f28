"""`answer_rules`: what options, tools and reasoning together say of how an answer may look."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import CapabilityError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.reading import ToolUse
from onnxgen.facade.tool_choice import ToolChoice
from onnxgen.preprocess.answer_grammar import GrammarText, HarmonyRule, ReasoningRule, answer_grammar
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.tool_calls.bound import BoundFormat
from onnxgen.preprocess.tool_calls.grammar import ToolRule, banned_openings
from onnxgen.preprocess.tool_calls.tools import ToolDefinition


@dataclass(frozen=True, slots=True)
class AnswerRules:
    """How an answer may look, and how calls are found in it.

    Attributes:
        options: The options, with what follows from them for tools.
        grammar: What the whole answer must look like; None: like anything.
        tool_use: How calls of tools are told from the answer; None: there are none.
    """

    options: GenerationOptions
    grammar: Grammar | None = None
    tool_use: ToolUse | None = None


def answer_rules(
    tokenizer: Tokenizer,
    options: GenerationOptions,
    prompt_options: PromptOptions,
    *,
    reasoning: ReasoningRule | HarmonyRule | None,
    tools: Sequence[ToolDefinition],
    bound: BoundFormat | None,
) -> AnswerRules:
    """What options, tools and reasoning together say.

    Args:
        tokenizer: The model's.
        options: How to answer.
        prompt_options: Which tools are called, and how.
        reasoning: How the answer may begin to think.
        tools: What is offered.
        bound: How calls are written; None: nobody knows.

    Raises:
        CapabilityError: A tool has to be called, and nobody knows how.
        OptionError: What the content must look like contradicts itself.
    """
    choice = prompt_options.choice
    use = _use(choice, tuple(tools), bound)
    if choice.kind == "none" and tools and bound is not None:
        options = _without_calls(options, bound, tokenizer)
    asked = options.grammar
    found = answer_grammar(
        tokenizer,
        content=None if asked is None else GrammarText(asked.kind, asked.source),
        tools=None if use is None else _rule(choice, use, parallel=prompt_options.parallel_tool_calls),
        reasoning=reasoning,
    )
    if found is None:
        return AnswerRules(options, None, use)
    fast_forward = asked is None or asked.fast_forward
    return AnswerRules(options, Grammar(found.kind, found.source, fast_forward), use)


def _use(choice: ToolChoice, tools: tuple[ToolDefinition, ...], bound: BoundFormat | None) -> ToolUse | None:
    if not tools or choice.kind == "none":
        return None
    if bound is not None:
        return ToolUse(bound, tools)
    if choice.kind == "auto":
        return None
    raise CapabilityError(
        f"tool_choice is {choice.name or choice.kind!r}, and this model's chat template does not show how tools are "
        "called; name the format with tool_call_format"
    )


def _rule(choice: ToolChoice, use: ToolUse, *, parallel: bool) -> ToolRule:
    return ToolRule(
        use.format,
        use.tools,
        choice="required" if choice.kind == "required" else "auto",
        name=choice.name,
        parallel=parallel,
    )


def _without_calls(options: GenerationOptions, bound: BoundFormat, tokenizer: Tokenizer) -> GenerationOptions:
    """Options under which no call can be opened, where opening one takes a token that opens nothing else."""
    banned = () if bound.format.has_own_parser else banned_openings(bound, tokenizer)
    if not banned:
        return options
    bias = {**(options.logit_bias or {}), **dict.fromkeys(banned, -math.inf)}
    return options.with_changes({"logit_bias": bias})
