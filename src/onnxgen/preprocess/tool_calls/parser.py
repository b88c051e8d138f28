"""`ToolCallParser`: the calls in an answer and the text around them, while the answer comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from onnxgen.preprocess.tool_calls.bound import BoundFormat
from onnxgen.preprocess.tool_calls.call_ids import SHORT_ID, random_id, short_id
from onnxgen.preprocess.tool_calls.reading import CallReader, ReadCall, Reading
from onnxgen.preprocess.tool_calls.scanners import Cursor, MalformedError
from onnxgen.preprocess.tool_calls.tools import ToolCall, ToolDefinition

_OWN_ID = re.compile(r"[A-Za-z0-9_.:/-]{1,192}")


class Parsed(NamedTuple):
    """What became certain of an answer.

    Attributes:
        content: Text for the user.
        calls: Calls, each whole.
    """

    content: str = ""
    calls: tuple[ToolCall, ...] = ()


class ToolCallParser:
    """Takes an answer in pieces of any size; what it makes of it does not depend on them.

    A call is given when it is whole. A text that closes a call may be missing where the answer ends by itself
    or the next call is opened. What turns out to be no call, or was cut, is content, as it stands there; calls
    after it still count: those that begin after the place where it went wrong, or after a text in it that closes
    calls. A text that is one token in the model's vocabulary counts as that token only.

    Blanks between content and calls are dropped; between two pieces of content with calls between them stay
    those in front of the calls, or those behind where there are none in front. Without calls, content is the
    text to the letter.

    Calls of tools that were not offered are given, too: the model meant a call, so it is no text for the user,
    and only the client can tell the model what is wrong. Where what opens a call is also ordinary text, such as a
    brace or bracket at the beginning of an answer, a call must name a tool that was offered.

    Args:
        bound: The format of the model.
        tools: The tools offered. Without any there is nothing to parse: make no parser.
        new_id: Makes ids for calls that have none of their own; random ones if None.
    """

    def __init__(
        self,
        bound: BoundFormat,
        tools: Sequence[ToolDefinition],
        *,
        new_id: Callable[[], str] | None = None,
    ) -> None:
        self._bound = bound
        self._cursor = Cursor()
        self._reader = CallReader(bound, tools, self._cursor)
        self._reading: Reading | None = None
        self._new_id = new_id or (short_id if bound.short_ids else random_id)
        self._ids: set[str] = set()
        format = bound.marked
        self._begins = bool(format.bare or format.starts_named)  # a call may be open from the beginning
        first = "".join(sorted(bound.openings.first_characters))
        self._characters = bound.characters
        self._matters = re.compile(rf"[{re.escape(first)}]|\s\Z" if first else r"\s\Z").search
        self._is_plain = False  # the next text is content as it is, unless something in it matters
        self._reread_until = 0
        self._body_begins = 0
        self._content: list[str] = []
        self._calls: list[ToolCall] = []
        self._in_front: list[str] = []  # blanks not given yet: behind content
        self._behind: list[str] = []  # and behind calls
        self._after_call = self._has_said = False

    @property
    def opened(self) -> bool:
        """Whether a call is being read, or what may become one."""
        return self._reading is not None

    def push(self, text: str, token_id: int | None = None) -> Parsed:
        """Take the next piece of text.

        Args:
            text: What a token added to the text.
            token_id: The token.
        """
        if self._is_plain and token_id not in self._characters and not self._matters(text):
            return Parsed(text)
        if token_id is not None and token_id in self._characters:
            before, marker, after = text.rpartition(self._bound.token_texts[token_id])
            if marker:
                text = before + self._characters[token_id] + after
        cursor = self._cursor
        cursor.feed(text)
        self._run()
        nothing_held = cursor.pos == len(cursor.text) and not self._in_front and not self._after_call
        self._is_plain = self._reading is None and nothing_held and self._has_said
        return self._given()

    def flush(self, *, complete: bool) -> Parsed:
        """The rest, at the end of the answer.

        Args:
            complete: The model ended its answer by itself; if not, it was cut and a call that was not whole is
                none.
        """
        cursor = self._cursor
        if complete:
            cursor.ended = True
            self._run()
        elif self._reading is not None:
            self._reading.close()
            self._reading = None
            if not cursor.between:
                self._say(cursor.read() + cursor.rest())
        self._say(cursor.rest())
        if not self._after_call:
            self._content += self._in_front
        self._in_front.clear()
        return self._given()

    def _given(self) -> Parsed:
        content = "".join(self._content)
        self._content.clear()
        if not self._calls:
            return Parsed(self._bound.shown(content))
        calls = tuple(self._calls)
        self._calls.clear()
        return Parsed(self._bound.shown(content), calls)

    def _run(self) -> None:
        while self._reading is not None or self._find():
            reading = self._reading
            assert reading is not None
            try:
                for found in reading:
                    if found is None:
                        return
                    if isinstance(found, str):
                        self._say(found)
                        self._cursor.use_up()
                    else:
                        self._take(found)
            except MalformedError:
                self._give_up()
            self._reading = None
            self._cursor.between = False
            self._cursor.forget()

    def _find(self) -> bool:
        """Look for what opens a block; returns whether there is one."""
        cursor, format = self._cursor, self._bound.marked
        if self._begins and not self._begin():
            return self._reading is not None
        match = self._bound.openings.find(cursor.text, cursor.pos)
        end = match.start() if match else self._bound.openings.certain(cursor.text, cursor.pos)
        if end > cursor.pos:
            self._say(cursor.text[cursor.pos : end])
        cursor.pos = end
        cursor.forget()
        if match is None:
            return False
        opened = match[0] in (format.opening.strip(), *format.other_openings)
        self._body_begins = cursor.place
        if opened:
            cursor.pos = match.end()
        self._reading = self._reader.block(opened=opened)
        return True

    def _begin(self) -> bool:
        """Look at how the answer begins; returns whether to look for openings."""
        cursor, format = self._cursor, self._bound.marked
        start = cursor.pos
        while start < len(cursor.text) and cursor.text[start].isspace():
            start += 1
        if start == len(cursor.text):
            self._say(cursor.text[cursor.pos :])
            cursor.pos = start
            cursor.forget()
            return False
        self._begins = False
        if not format.starts_named and cursor.text[start] not in format.bare:
            return True
        self._say(cursor.text[cursor.pos : start])
        cursor.pos = start
        cursor.forget()
        self._reading = self._reader.block(opened=False, named=format.starts_named)
        return False

    def _give_up(self) -> None:
        """What was read is no call."""
        cursor = self._cursor
        text = "" if cursor.between else cursor.read()
        place = cursor.place
        closing = self._bound.closings.find(text)
        # Text is read again once at most: that keeps the time in proportion to the text.
        if closing is not None and self._body_begins >= self._reread_until:
            self._reread_until = place
            cursor.unread(len(text) - closing.end())
            text = text[: closing.end()]
        self._say(text)

    def _take(self, call: ReadCall) -> None:
        self._cursor.use_up()
        self._after_call = True
        own_id = call.id
        pattern = SHORT_ID if self._bound.short_ids else _OWN_ID
        if own_id is None or own_id in self._ids or not pattern.fullmatch(own_id):
            own_id = self._new_id()
            while own_id in self._ids:
                own_id = self._new_id()
        self._ids.add(own_id)
        self._calls.append(ToolCall(own_id, call.name, call.arguments))

    def _say(self, text: str) -> None:
        """Text is content; blanks at its end may be dropped yet."""
        shown = text.strip() if self._after_call else text.rstrip()
        if not shown:
            (self._behind if self._after_call else self._in_front).append(text)
            return
        end = len(text.rstrip())
        if self._after_call:
            self._behind.append(text[: len(text) - len(text.lstrip())])
            gap = "".join(self._in_front) or "".join(self._behind)
            self._behind.clear()
            if self._has_said:
                self._content.append(gap)
        else:
            self._content += self._in_front
        self._in_front.clear()
        self._content.append(shown)
        if end < len(text):
            self._in_front.append(text[end:])
        self._after_call, self._has_said = False, True
