"""Headers of harmony messages, also those that a model got wrong."""

from __future__ import annotations

import re
from typing import NamedTuple

from onnxgen.preprocess.harmony_markers import Control

MAX_HEADER_CHARS = 256
"""A longer header is none: the text is a message without one."""

_ROLES = ("assistant", "user", "system", "developer", "tool")
_RECIPIENT = re.compile(r"\bto=\s*([^\s<]+)")
_LAST_SEGMENT = re.compile(
    r"\s*(?:(?!to=)(?P<channel>[^\s<]*))?\s*(?:to=\s*[^\s<]+)?\s*(?:<\|constrain\|>\s*[^\s<]*)?\s*"
)


class Header(NamedTuple):
    """What a header says.

    Attributes:
        channel: The channel, an empty text where there is none.
        recipient: Whom the message goes to, None: nobody named.
        rest: Text behind the channel that belongs to no header; None: there is no channel.
    """

    channel: str
    recipient: str | None
    rest: str | None = None


def read_header(text: str) -> Header:
    """Read a header.

    The recipient may stand anywhere. Of several channels and recipients the last ones count.

    Args:
        text: From after ``<|start|>`` up to ``<|message|>``, with the texts of the control tokens inside.
    """
    recipients = _RECIPIENT.findall(text)
    _, found, segment = text.rpartition(Control.CHANNEL.value)
    if not found:
        return Header("", recipients[-1] if recipients else None)
    match = _LAST_SEGMENT.match(segment)
    assert match is not None, "every part may be missing"
    # `to=f json` without <|constrain|> is met, too.
    rest = "" if recipients and len(segment[match.end() :].split()) == 1 else segment[match.end() :]
    return Header(match["channel"] or "", recipients[-1] if recipients else None, rest)


def may_begin_header(text: str, *, after_role: bool) -> bool:
    """Whether a text may be, or become, a header up to its channel: ``assistant to=functions.f``.

    Args:
        text: All of it so far.
        after_role: The role came before it.
    """
    words = text.split()
    open_word = words.pop() if words and not text[-1].isspace() else ""
    for word in words:
        if not (_is_role(word) if not after_role else word.startswith("to=")):
            return False
        after_role = True
    if after_role:
        return "to=".startswith(open_word) or open_word.startswith("to=")
    return open_word.startswith("functions.") or any(
        role.startswith(open_word) for role in (*_ROLES, "functions.")
    )


def _is_role(word: str) -> bool:
    return word in _ROLES or word.startswith("functions.")
