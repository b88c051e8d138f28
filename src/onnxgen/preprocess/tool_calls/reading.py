"""`CallReader`: reads the calls of one block."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from onnxgen.preprocess.tool_calls.arguments import object_text, properties_of
from onnxgen.preprocess.tool_calls.bound import BoundFormat, first_text
from onnxgen.preprocess.tool_calls.brace_calls import read_braces
from onnxgen.preprocess.tool_calls.json_calls import read_json_call
from onnxgen.preprocess.tool_calls.json_scanner import JsonScanner
from onnxgen.preprocess.tool_calls.layouts import Body, BraceCall, IdRule, JsonCall, NamedCall, PythonCall
from onnxgen.preprocess.tool_calls.literals import arguments_of_call
from onnxgen.preprocess.tool_calls.python_scanner import PythonScanner
from onnxgen.preprocess.tool_calls.scanners import Cursor, MalformedError, NoCallError, Step
from onnxgen.preprocess.tool_calls.tag_calls import read_parameters
from onnxgen.preprocess.tool_calls.tools import ToolDefinition

_NAME = re.compile(r"[\w.\-:/]*")
_IN_NAME = re.compile(r"(?:functions\.)?(.+?):\d+")


class ReadCall(NamedTuple):
    """A call as read: with the id that it was written with, if it was."""

    name: str
    arguments: str
    id: str | None = None


Reading = Generator[ReadCall | str | None, None, None]
"""Yields calls, text in front of one that is content, and None where it needs more text."""


class CallReader:
    """Reads blocks of one answer.

    Args:
        bound: The format.
        tools: The tools offered.
        cursor: The text.
    """

    def __init__(self, bound: BoundFormat, tools: Sequence[ToolDefinition], cursor: Cursor) -> None:
        self._bound = bound
        self._format = bound.marked
        self._bodies = (bound.marked.body, *bound.marked.others)
        self._schemas: Mapping[str, Mapping[str, Any]] = {tool.name: tool.parameters for tool in tools}
        self._cursor = cursor

    def block(self, *, opened: bool, named: bool = False) -> Reading:
        """Read a block.

        Args:
            opened: Its opening was read.
            named: The text in front of the first name was read, too.

        Raises:
            MalformedError: It is none, or goes on with something else after the calls that were yielded.
        """
        cursor, format = self._cursor, self._format
        if named:
            call = yield from self._named_call(cast("NamedCall", format.body), begun=True)
            yield from () if call is None else (call,)
            return
        if (yield from cursor.peek()) == "[" and self._may_be_list():
            cursor.pos += 1
            yield from self._list()
        elif format.shared:
            yield from self._sequence()
        else:
            call = yield from self._call()
            if call is None:
                return
            if opened:
                yield from self._close(format.closing)
                yield call
                return
            yield call
        if opened:
            yield from self._close(format.closing)
        else:
            yield from cursor.accept(format.closing)

    def _may_be_list(self) -> bool:
        return any(isinstance(body, JsonCall | PythonCall) for body in self._bodies)

    def _list(self) -> Reading:
        cursor, whole = self._cursor, self._format.known_names_only
        calls: list[ReadCall] = []
        following, is_refused = ",", False
        while following == ",":
            if (yield from cursor.peek()) == "]":
                break
            if is_refused:
                yield cursor.read()
                is_refused = False
            cursor.begin()
            try:
                call = yield from self._call()
            except NoCallError:
                is_refused = True
                if whole:
                    raise
            else:
                assert call is not None
                calls.append(call)
                if not whole:
                    yield call
            following = yield from cursor.peek()
            cursor.pos += following == ","
        if is_refused or not calls or not (yield from cursor.accept("]")):
            raise MalformedError
        yield from calls if whole else ()

    def _sequence(self) -> Reading:
        cursor, format = self._cursor, self._format
        separator, closing = format.separator.strip(), format.closing
        whole = bool(format.known_names_only and closing)
        calls: list[ReadCall] = []
        while True:
            cursor.begin()
            call = yield from self._call()
            assert call is not None
            calls.append(call)
            if not whole:
                yield call
            if (yield from cursor.peek()) == "":
                break
            if separator and not (yield from cursor.accept(separator)):
                break
            if closing and (yield from cursor.is_at(closing.strip())):
                break
        yield from calls if whole else ()

    def _close(self, closing: str) -> Step[None]:
        """Read a text that closes something; the end, and what opens the next block, close it as well."""
        cursor = self._cursor
        if not closing or (yield from cursor.accept(closing)) or (yield from cursor.peek()) == "":
            return
        for opening in self._bound.openings.markers:
            if (yield from cursor.is_at(opening)):
                return
        raise MalformedError

    def _call(self) -> Step[ReadCall | None]:
        """Read a call; None: a name that is no tool, so that what follows is text."""
        cursor = self._cursor
        c = yield from cursor.peek()
        body = next((body for body in self._bodies if c and _may_begin(body, c)), None)
        match body:
            case None:
                raise MalformedError
            case JsonCall():
                text = yield from cursor.scan(JsonScanner("{"))
                return self._checked(*read_json_call(self._shown(text), body))
            case NamedCall():
                return (yield from self._named_call(body, begun=False))
            case PythonCall():
                return (yield from self._python_call(body))
            case _:
                yield from cursor.expect(body.before_name)
                name = yield from cursor.run(_NAME)
                if isinstance(body, BraceCall):
                    arguments = yield from read_braces(cursor, body.quote)
                    return self._checked(name, self._shown(arguments))
                yield from cursor.expect(body.after_name)
                schema = self._schemas.get(name, {})
                arguments = yield from read_parameters(cursor, self._bound, body, schema)
                yield from self._end_parameters(body.after_parameters)
                return self._checked(name, self._shown(arguments))

    def _end_parameters(self, text: str) -> Step[None]:
        closing = self._format.closing.strip()
        if not text:
            at_end = yield from self._cursor.is_at(closing)
            if not at_end and (yield from self._cursor.peek()) != "":
                yield from self._close(closing)
        elif not (closing and (yield from self._cursor.is_at(closing))):
            yield from self._close(text)

    def _named_call(self, body: NamedCall, *, begun: bool) -> Step[ReadCall | None]:
        cursor = self._cursor
        if not begun:
            yield from cursor.expect(body.before_name)
        name = yield from cursor.run(_NAME)
        if body.text_name and name == body.text_name and (yield from cursor.is_at("\n")):
            cursor.pos += 1
            cursor.forget()
            return None
        own_id: str | None = None
        if body.before_id and (yield from cursor.accept(body.before_id)):
            own_id = yield from cursor.run(_NAME)
        if (yield from cursor.peek()) != "{":
            yield from cursor.expect(body.after_name)
        if body.after_arguments and (yield from cursor.accept(body.after_arguments)):
            return self._checked(name, "{}", own_id)
        text = yield from cursor.scan(JsonScanner('{"'))
        arguments = object_text(self._shown(text))
        if arguments is None:
            raise MalformedError
        yield from self._close(body.after_arguments)
        return self._checked(name, arguments, own_id)

    def _python_call(self, body: PythonCall) -> Step[ReadCall]:
        cursor = self._cursor
        name = yield from cursor.run(_NAME)
        if body.method and name not in self._schemas:
            name = name.removesuffix(body.method)
        yield from cursor.expect("(")
        text = yield from cursor.scan(PythonScanner())
        properties = properties_of(self._schemas.get(name, {}))
        try:
            arguments = arguments_of_call(self._shown(text)[:-1], tuple(properties))
        except ValueError as cause:
            raise MalformedError from cause
        return self._checked(name, arguments)

    def _checked(self, name: str, arguments: str, own_id: str | None = None) -> ReadCall:
        if self._format.ids is IdRule.IN_NAME and (match := _IN_NAME.fullmatch(name)):
            own_id, name = name, match[1]
        if not name or not name.isprintable():
            raise NoCallError
        if self._format.known_names_only and name not in self._schemas:
            raise NoCallError
        return ReadCall(name, arguments, own_id)

    def _shown(self, text: str) -> str:
        return self._bound.shown(text)


def _may_begin(body: Body, c: str) -> bool:
    if isinstance(body, JsonCall):
        return c == "{"
    first = first_text(body)
    return first.startswith(c) if first else _NAME.match(c) is not None and c != ""
