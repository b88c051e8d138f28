"""`ToolCallFormat`: how calls stand in an answer, said so that one can read them and write them.

An answer with calls is content and blocks. What a block looks like::

    opening  call  closing                                  shared=False: a block for each call
    opening  call  separator  call  closing                 shared=True: several calls in one block
    opening  [ call  separator  call ]  closing             brackets=True: as a list

and what a call looks like says its ``body``, with all texts that belong to each call alone. Texts are as
templates write them, blanks included; a reader is not particular about blanks at their ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCall:
    """``{"name": "f", "arguments": {...}}``.

    Attributes:
        name_key: Key of the name; readers also take ``name``.
        arguments_key: Key of the arguments; readers also take ``arguments`` and ``parameters``.
        id_key: Key of the call's id, where a call has one.
        id_first: The id stands in front of the name, else behind the arguments.
        name_is_key: ``{"f": {...}}`` instead: the only key is the name, its value the arguments.
    """

    name_key: str = "name"
    arguments_key: str = "arguments"
    id_key: str | None = None
    id_first: bool = False
    name_is_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCall:
    """``before_name`` NAME ``after_name`` {JSON arguments} ``after_arguments``.

    Attributes:
        before_name: Text in front of the name.
        after_name: Text between the name and the arguments.
        after_arguments: Text behind the arguments.
        before_id: Text between the name and the id, where models may write one; ``after_name`` follows.
        text_name: A name that is no tool: what follows is text for the user.
    """

    before_name: str = ""
    after_name: str
    after_arguments: str = ""
    before_id: str = ""
    text_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagCall:
    """``before_name`` NAME ``after_name`` parameters ``after_parameters``; values have no quotes.

    A parameter is ``before_key`` KEY ``after_key`` ``before_value`` VALUE ``after_value``. A value is the text
    of a string, or JSON for all else.

    Attributes:
        before_name: Text in front of the name.
        after_name: Text behind the name.
        before_key: Text in front of a key.
        after_key: Text behind a key.
        before_value: Text in front of a value (where ``before_json`` is not empty: of a string).
        before_json: Text in front of a value that is JSON, where the format tells the two apart.
        after_value: Text behind a value.
        after_parameters: Text behind the last parameter.
    """

    before_name: str
    after_name: str
    before_key: str
    after_key: str
    before_value: str = ""
    before_json: str = ""
    after_value: str
    after_parameters: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonCall:
    """``f(a="x", b=1)``: a Python call with literals for arguments.

    Attributes:
        method: Text behind the name that is no part of it (``.call``); may be absent.
    """

    method: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BraceCall:
    """``before_name`` NAME ``{key:value,key:value}``: like JSON, but keys have no quotes and strings have others.

    Keys are written in alphabetical order.

    Attributes:
        before_name: Text in front of the name.
        quote: Text on both sides of a string; nothing in a string is escaped.
    """

    before_name: str = "call:"
    quote: str


Body = JsonCall | NamedCall | TagCall | PythonCall | BraceCall


class IdRule(Enum):
    """Where the id of a call comes from."""

    FREE = "free"
    """The call's own if it has one, else any."""

    IN_NAME = "in name"
    """The call is written with ``functions.NAME:INDEX`` for a name; that is its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallFormat:
    """How calls stand in an answer.

    Attributes:
        name: For logs and options.
        body: What a call looks like.
        others: What it may look like as well: readers take it, writers do not write it.
        opening: Text that opens a block; empty: a call opens itself.
        closing: Text that closes it; empty: nothing does.
        shared: Several calls may stand in one block; if not, each has its own.
        brackets: The calls of a block stand in a list ``[...]``; implies ``shared``.
        separator: Text between the calls of a block, or between blocks if there is one for each call.
        other_openings: Texts that also open a block.
        opening_optional: A block may lack its opening; the first text of the body opens it then.
        bare: Characters that a call may begin with when the answer begins with it, without any opening.
        starts_named: The prompt ends with the body's ``before_name``: an answer begins with a name.
        known_names_only: What opens a call is also ordinary text: it is a call only if it names a tool that
            was offered, and a list is one only as a whole.
        ids: Where ids come from.
        signs: Texts that chat templates of these models have, all of them; empty: the opening.
        has_own_parser: Calls are part of messages with channels, which another parser tells apart.
    """

    name: str
    body: Body
    others: tuple[Body, ...] = ()
    opening: str = ""
    closing: str = ""
    shared: bool = False
    brackets: bool = False
    separator: str = ""
    other_openings: tuple[str, ...] = ()
    opening_optional: bool = False
    bare: str = ""
    starts_named: bool = False
    known_names_only: bool = False
    ids: IdRule = IdRule.FREE
    signs: tuple[str, ...] = ()
    has_own_parser: bool = False
