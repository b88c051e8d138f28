"""`ReasoningMarkers`: how a model opens and closes what it thinks before it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class _Known(NamedTuple):
    opening: str
    closing: str
    headers: tuple[str, ...] = ()


_KNOWN = (
    _Known(
        "<|channel|>analysis<|message|>",
        "<|end|>",
        (
            "<|start|>assistant<|channel|>final<|message|>",
            "<|channel|>final<|message|>",
            "<|start|>assistant",
        ),
    ),
    _Known("<|channel>thought\n", "<channel|>"),
    _Known("<|START_THINKING|>", "<|END_THINKING|>"),
    _Known("<seed:think>", "</seed:think>"),
    _Known("[THINK]", "[/THINK]"),
    _Known("<|inner_prefix|>", "<|inner_suffix|>"),
    _Known("Here is my thought process:", "Here is my response:"),
    _Known("◁think▷", "◁/think▷"),
    _Known("<thought>", "</thought>"),
    _Known("<think>", "</think>"),
)


@dataclass(frozen=True, slots=True)
class ReasoningMarkers:
    """Texts around reasoning.

    Attributes:
        opening: Text that opens a block of reasoning.
        closing: Text that closes it.
        opening_id: The token that ``opening`` is, if it is one.
        closing_id: The token that ``closing`` is, if it is one.
        headers: Texts before an answer that are not part of it.
        shown_ids: Special tokens that these texts are made of: an `IncrementalDetokenizer` must not skip
            them, so that a `ReasoningSplitter` sees them.
    """

    opening: str
    closing: str
    opening_id: int | None = None
    closing_id: int | None = None
    headers: tuple[str, ...] = ()
    shown_ids: frozenset[int] = frozenset()


class PromptState(Enum):
    """What a prompt says of reasoning at its end."""

    UNSAID = "unsaid"
    OPEN = "open"
    CLOSED = "closed"


def find_reasoning_markers(template: str | None, tokenizer: Tokenizer) -> ReasoningMarkers | None:
    """Find the markers of a model.

    Args:
        template: Text of its chat template; what a template writes goes first.
        tokenizer: Its tokenizer; without a template's word it has the markers as tokens.

    Returns:
        None for a model that shows none.
    """
    text = template or ""
    for known in _KNOWN:
        # Templates write line ends inside of texts as \n.
        opening, closing = known.opening.rstrip(), known.closing
        if opening in text and closing in text:
            return _markers(known, tokenizer)
    for known in _KNOWN:
        if known.closing in text and not known.headers:
            return _markers(known, tokenizer)
    for known in _KNOWN:
        if None not in (tokenizer.token_to_id(known.opening), tokenizer.token_to_id(known.closing)):
            return _markers(known, tokenizer)
    return None


def prompt_state(markers: ReasoningMarkers, prompt: str) -> PromptState:
    """Find out whether a prompt ends inside reasoning, or with reasoning that is over already.

    Args:
        markers: Those of the model.
        prompt: The rendered prompt; `ChatPrompt.shadowed`, so that text of a message is no marker.
    """
    end = prompt.rstrip()
    if end.endswith(markers.opening.rstrip()):
        return PromptState.OPEN
    return PromptState.CLOSED if end.endswith(markers.closing) else PromptState.UNSAID


def _markers(known: _Known, tokenizer: Tokenizer) -> ReasoningMarkers:
    return ReasoningMarkers(
        known.opening,
        known.closing,
        tokenizer.token_to_id(known.opening),
        tokenizer.token_to_id(known.closing),
        known.headers,
        frozenset(_special_ids((known.opening, known.closing, *known.headers), tokenizer)),
    )


def _special_ids(texts: Iterable[str], tokenizer: Tokenizer) -> Iterable[int]:
    for text in texts:
        yield from (span.token_id for span in tokenizer.special_text.spans(text))
