"""`HarmonyMarkers`: the control tokens of the harmony format, and how a text is cut at them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
        self._beginnings = frozenset(t[:n] for t in by_text for n in range(1, len(t)))
        self._pattern = re.compile("|".join(map(re.escape, by_text))) if by_text else None
        self._held = ""  # may become a control token

    def push(self, text: str, token_id: int | None = None) -> Sequence[Control | str]:
        """Take the next piece of text and the token it comes from; gives what is certain, in order."""
        control = None if token_id is None else self._control_by_id.get(token_id)
        if control is None:
            return self._cut(text)
        before, _, after = text.rpartition(control.value)
        return [*self._cut(before), *self.flush(), control, *self._cut(after)]

    def flush(self) -> Sequence[str]:
        """What was held back, which is text now."""
        held, self._held = self._held, ""
        return (held,) if held else ()

    def _cut(self, text: str) -> Sequence[Control | str]:
        if self._pattern is None or not (self._held or "<" in text):
            return (text,) if text else ()
        whole, self._held = self._held + text, ""
        pieces: list[Control | str] = []
        at = 0
        for match in self._pattern.finditer(whole):
            pieces += (whole[at : match.start()], Control(match[0]))
            at = match.end()
        begin = whole.rfind("<", max(at, len(whole) - _LONGEST))
        if begin >= 0 and whole[begin:] in self._beginnings:
            self._held = whole[begin:]
            pieces.append(whole[at:begin])
        else:
            pieces.append(whole[at:])
        return [piece for piece in pieces if piece]


_LONGEST = max(len(control.value) for control in Control)
