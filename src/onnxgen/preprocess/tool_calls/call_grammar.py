"""Grammars of single calls, for each layout of `onnxgen.preprocess.tool_calls.layouts`.

A call is written as its layout's first text, which is the same for all tools, and a rest that is the tool's own.
Arguments follow the schema of the tool in the writing of the layout: JSON exactly, other writings as
`onnxgen.preprocess.tool_calls.value_grammar` and `tag_parameters` say. Arguments come in the order of the schema.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from onnxgen.preprocess.lark_text import LarkText, escaped, one_of, quoted
from onnxgen.preprocess.tool_calls.layouts import (
    Body,
    BraceCall,
    IdRule,
    JsonCall,
    NamedCall,
    PythonCall,
    TagCall,
)
from onnxgen.preprocess.tool_calls.schemas import SchemaPart, loosened, takes_nothing
from onnxgen.preprocess.tool_calls.tools import ToolDefinition
from onnxgen.preprocess.tool_calls.value_grammar import BraceValues, PythonValues, separated

_BLANKS = r"\s{0,4}"
_ID = "/[A-Za-z0-9_-]{1,64}/"


class CallText(NamedTuple):
    """How a call of one tool is written.

    Attributes:
        first: The text that calls of all tools begin with; may be empty.
        head: A regular expression for the text up to the name of the tool and behind it, ``first`` included.
        rest: Symbols for all that comes after ``first``.
        tail: Symbols for all that comes after ``head``.
    """

    first: str
    head: str
    rest: str
    tail: str


def call_text(lark: LarkText, body: Body, tool: ToolDefinition, ids: IdRule = IdRule.FREE) -> CallText:
    """How a tool is called.

    Args:
        lark: Takes the rules.
        body: The layout.
        tool: The tool.
        ids: Where the id of a call comes from.
    """
    match body:
        case JsonCall():
            return _json_call(lark, body, tool)
        case NamedCall():
            return _named_call(lark, body, tool, ids)
        case TagCall():
            return _tag_call(lark, body, tool)
        case PythonCall():
            return _python_call(lark, body, tool)
        case BraceCall():
            return _brace_call(lark, body, tool)


def arguments(lark: LarkText, tool: ToolDefinition) -> str:
    """A symbol for the arguments of a tool as a JSON object.

    Keywords of its schema that cannot be enforced are refused when the grammar is compiled for a tool that is
    strict; for others they are left to the model.
    """
    schema: dict[str, Any] = {"type": "object", **tool.parameters}
    if takes_nothing(schema):
        schema["additionalProperties"] = False
    return lark.json(schema if tool.strict else loosened(schema))


def _json_call(lark: LarkText, body: JsonCall, tool: ToolDefinition) -> CallText:
    blanks = lark.blanks()
    colon, comma = f'{blanks} ":" {blanks}', f'{blanks} "," {blanks}'
    name = quoted(json.dumps(tool.name))
    values = arguments(lark, tool)
    if body.name_is_key:
        head = rf"\{{{_BLANKS}{escaped(json.dumps(tool.name))}"
        tail = f'{colon} {values} {blanks} "}}"'
        return CallText("{", head, f"{blanks} {name} {tail}", tail)
    key = quoted(json.dumps(body.name_key))
    head = rf"\{{{_BLANKS}{escaped(json.dumps(body.name_key))}{_BLANKS}:{_BLANKS}{escaped(json.dumps(tool.name))}"
    tail = f"{comma} {quoted(json.dumps(body.arguments_key))} {colon} {values}"
    before = ""
    if body.id_key is not None:
        text = lark.rule("ID", '"\\"" ' + _ID + ' "\\""')
        pair = lark.rule("id", f"{quoted(json.dumps(body.id_key))} {colon} {text}")
        if body.id_first:
            before = f"({pair} {comma})?"
        else:
            tail += f" ({comma} {pair})?"
    tail += f' {blanks} "}}"'
    return CallText("{", head, f"{blanks} {before} {key} {colon} {name} {tail}", tail)


def _named_call(lark: LarkText, body: NamedCall, tool: ToolDefinition, ids: IdRule) -> CallText:
    name, tail = lark.literal(tool.name), lark.loose(body.after_name)
    if ids is IdRule.IN_NAME:
        name = f'"functions." {name} ":" {lark.rule("INDEX", "/[0-9]{1,3}/")}'
    if body.before_id:
        tail = f"({lark.literal(body.before_id)} {lark.rule('ID', _ID)})? {tail}"
    tail += f" {arguments(lark, tool)} {lark.loose(body.after_arguments)}"
    return CallText(body.before_name, escaped(body.before_name + tool.name), f"{name} {tail}", tail)


def _tag_call(lark: LarkText, body: TagCall, tool: ToolDefinition) -> CallText:
    # A tool without parameters may be written without the line end behind its name.
    tail = f"{lark.loose(body.after_name)} {_tag_parameters(lark, body, tool)} {lark.loose(body.after_parameters)}"
    head = escaped(body.before_name + tool.name)
    return CallText(body.before_name, head, f"{lark.literal(tool.name)} {tail}", tail)


def _tag_parameters(lark: LarkText, body: TagCall, tool: ToolDefinition) -> str:
    """Parameters in the order of the schema; texts are free up to the closing tag, other values are JSON."""
    whole = SchemaPart(tool.parameters, tool.parameters)
    required = whole.required()
    parts: list[tuple[str, bool]] = []
    for key, part in whole.properties().items():
        value = _tag_value(lark, body, part, strict=tool.strict)
        begin = f"{lark.loose(body.before_key)} {lark.literal(key)}"
        parts.append((lark.rule("parameter", f"{begin} {value}"), key in required))
    if (others := whole.others()) is not None and not takes_nothing(tool.parameters):
        key = lark.rule("KEY", r"/[A-Za-z_][A-Za-z0-9_.-]{0,63}/")
        value = _tag_value(lark, body, others, strict=tool.strict)
        parts.append((lark.rule("others", f"({lark.loose(body.before_key)} {key} {value})+"), False))
    return separated(lark, parts, "")


def _tag_value(lark: LarkText, body: TagCall, part: SchemaPart, *, strict: bool) -> str:
    """Symbols from behind the key up to the end of the parameter."""
    kinds = part.kinds()
    tells = bool(body.before_json)
    ways: list[str] = []
    if "string" in kinds:
        values = part.values()
        if values is None:
            ways.append(f"{_before_text(lark, body)} {_until(lark, body.after_value)}")
        for value in values or ():
            if isinstance(value, str):
                after = f"{lark.literal(body.after_value.rstrip())} {lark.blanks()}"
                ways.append(f"{_before_text(lark, body)} {lark.literal(value)} {after}")
    if kinds - {"string"} and (tells or "string" not in kinds):
        schema = part.document()
        value = lark.json(schema if strict else loosened(schema))
        before = lark.loose(body.before_json if tells else body.before_value)
        ways.append(f"{lark.loose(body.after_key)} {before} {value} {lark.loose(body.after_value)}")
    return lark.rule("value", one_of(ways))


def _before_text(lark: LarkText, body: TagCall) -> str:
    """Symbols between a key and a text. A line end next to the text is not part of it, so it has to be there."""
    if not body.before_value:
        return lark.literal(body.after_key)
    return f"{lark.loose(body.after_key)} {lark.blanks_before(body.before_value)}"


def _until(lark: LarkText, after: str) -> str:
    body = after.rstrip()
    return f"{lark.until(body)} {lark.blanks() if body != after else ''}".strip()


def _python_call(lark: LarkText, body: PythonCall, tool: ToolDefinition) -> CallText:
    values = PythonValues(lark)
    whole = SchemaPart(tool.parameters, tool.parameters)
    required = whole.required()
    parts = [
        (lark.rule("keyword", f'{lark.literal(key)} "=" {values.value(part)}'), key in required)
        for key, part in whole.properties().items()
        if key.isidentifier()
    ]
    if (others := whole.others()) is not None and not takes_nothing(tool.parameters):
        key = lark.rule("KEY", "/[A-Za-z_][A-Za-z0-9_]{0,63}/")
        pair = lark.rule("keyword", f'{key} "=" {values.value(others)}')
        parts.append((lark.rule("others", f"{pair} ({values.between} {pair})*"), False))
    tail = f'{separated(lark, parts, values.between)} ")"'
    start = f"{tool.name}{body.method}("
    return CallText("", escaped(start), f"{lark.literal(start)} {tail}", tail)


def _brace_call(lark: LarkText, body: BraceCall, tool: ToolDefinition) -> CallText:
    values = BraceValues(lark, body.quote)
    whole = SchemaPart({"type": "object", **tool.parameters}, tool.parameters)
    others = None
    if (rest := whole.others()) is not None and not takes_nothing(tool.parameters):
        others = lark.rule("pair", f"{values.any_key()} {values.colon} {values.value(rest)}")
    members = values.members(whole, between=values.between, others=others)
    tail = f'{members} "}}"'
    start = f"{tool.name}{{"
    return CallText(
        body.before_name, escaped(body.before_name + start), f"{lark.literal(start)} {tail}", tail
    )
