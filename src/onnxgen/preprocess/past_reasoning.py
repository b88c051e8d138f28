"""What a model thought in earlier turns, which its next prompt goes without."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.reasoning import split_reasoning
from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers

if TYPE_CHECKING:
    from onnxgen.preprocess.chat_template import ChatTemplate


def drops_reasoning(template: ChatTemplate, markers: ReasoningMarkers) -> bool:
    """Whether a template leaves the reasoning out of answers before the last question; found by rendering one."""
    answer = f"{markers.opening}\nk7q\n{markers.closing}\n\nv9x"
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "q"},
    ]
    try:
        return "k7q" not in template.render(messages)
    except ChatTemplateError:
        return False


def without_reasoning(
    messages: Iterable[Mapping[str, Any]], markers: ReasoningMarkers
) -> list[Mapping[str, Any]]:
    """Messages in which the answers before the last question are without their reasoning.

    For templates that do not do so themselves (`drops_reasoning`). Answers after the last question, as
    between the calls of tools, keep theirs.
    """
    messages = list(messages)
    last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=0)
    return [_answered(m, markers) if i < last else m for i, m in enumerate(messages)]


def _answered(message: Mapping[str, Any], markers: ReasoningMarkers) -> Mapping[str, Any]:
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, str):
        return message
    # An answer whose block was opened by its prompt has the closing marker only.
    opened = content.lstrip().startswith(markers.opening.rstrip())
    state = PromptState.OPEN if markers.closing in content and not opened else PromptState.UNSAID
    return {**message, "content": split_reasoning(markers, content, state)[1]}
