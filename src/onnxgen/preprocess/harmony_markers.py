"""`HarmonyMarkers`: the control tokens of the harmony format, and how a text is cut at them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


class Control(Enum):
    """A control token; its value is its text."""

    START = "<|start|>"
    CHANNEL = "<|channel|>"
    CONSTRAIN = "<|constrain|>"
    MESSAGE = "<|message|>"
    END = "<|end|>"
    CALL = "<|call|>"
    RETURN = "<|return|>"


@dataclass(frozen=True, slots=True)
class HarmonyMarkers:
    """Control tokens as a vocabulary has them.

    Attributes:
        control_by_id: Those that are one token; they count as that token only.
        shown_ids: The special tokens among them: an `IncrementalDetokenizer` must not skip them, so that text
            before one is complete when it comes.
    """

    control_by_id: Mapping[int, Control] = field(default_factory=dict[int, Control])
    shown_ids: frozenset[int] = frozenset()


def find_harmony_markers(template: str | None, tokenizer: Tokenizer) -> HarmonyMarkers | None:
    """The control tokens of a model whose chat template writes harmony messages; None for others."""
    text = template or ""
    if Control.CHANNEL.value not in text or Control.MESSAGE.value not in text:
        return None
    ids = {control: tokenizer.token_to_id(control.value) for control in Control}
    found = {token_id: control for control, token_id in ids.items() if token_id is not None}
    return HarmonyMarkers(found, tokenizer.special_ids & found.keys())


def open_header(prompt: str) -> str:
    """What a prompt says of the message that the answer begins with: all after its last ``<|start|>``.

    Args:
        prompt: The rendered prompt; `ChatPrompt.shadowed`, so that text of a message is no control token.
    """
    return prompt.rpartition(Control.START.value)[2] if Control.START.value in prompt else ""


class ControlLexer:
    """Cuts a text at control tokens, whatever the pieces it arrives in.

    Args:
        markers: Those of the model. A control token that is one token of the vocabulary is found by its id
            alone, the others by their text.
    """

    def __init__(self, markers: HarmonyMarkers) -> None:
        self._control_by_id = markers.control_by_id
        by_text = [c.value for c in Control if c not in markers.control_by_id.values()]
        self._texts = tuple(by_text)
        self._pattern = re.compile("|".join(map(re.escape, by_text))) if by_text else None
        self._held = ""  # may become a control token

    def push(self, text: str, token_id: int | None = None) -> Iterator[Control | str]:
        """Take the next piece of text and the token it comes from; gives what is certain, in order."""
        control = None if token_id is None else self._control_by_id.get(token_id)
        if control is None:
            yield from self._cut(text)
            return
        before, _, after = text.rpartition(control.value)
        yield from self._cut(before)
        yield from self.flush()
        yield control
        yield from self._cut(after)

    def flush(self) -> Iterator[str]:
        """What was held back, which is text now."""
        held, self._held = self._held, ""
        if held:
            yield held

    def _cut(self, text: str) -> Iterator[Control | str]:
        if self._pattern is None:
            if text:
                yield text
            return
        whole, self._held = self._held + text, ""
        at = 0
        for match in self._pattern.finditer(whole):
            if match.start() > at:
                yield whole[at : match.start()]
            yield Control(match[0])
            at = match.end()
        rest = whole[at:]
        begin = rest.rfind("<", max(0, len(rest) - _LONGEST))
        if begin >= 0 and any(marker.startswith(rest[begin:]) for marker in self._texts):
            rest, self._held = rest[:begin], rest[begin:]
        if rest:
            yield rest


_LONGEST = max(len(control.value) for control in Control)
