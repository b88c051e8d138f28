"""Writes calls as models do, the counterpart of `ToolCallParser`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from onnxgen.errors import OptionError
from onnxgen.preprocess.tool_calls.layouts import (
    BraceCall,
    IdRule,
    JsonCall,
    NamedCall,
    PythonCall,
    TagCall,
    ToolCallFormat,
)
from onnxgen.preprocess.tool_calls.tools import ToolCall


def write_calls(format: ToolCallFormat, calls: Sequence[ToolCall]) -> str:
    """Text of the part of an answer that makes some calls.

    Args:
        format: How.
        calls: The calls, one at least.

    Raises:
        OptionError: A text in the arguments cannot be written: the format has no way to write its own marks.
    """
    texts = [_call(format, call, index) for index, call in enumerate(calls)]
    if format.brackets:
        return f"{format.opening}[{format.separator.join(texts)}]{format.closing}"
    if format.shared:
        return f"{format.opening}{format.separator.join(texts)}{format.closing}"
    text = format.separator.join(f"{format.opening}{text}{format.closing}" for text in texts)
    body = format.body
    return (
        text.removeprefix(body.before_name) if format.starts_named and isinstance(body, NamedCall) else text
    )


def _call(format: ToolCallFormat, call: ToolCall, index: int) -> str:
    body, name, arguments = format.body, call.name, json.loads(call.arguments)
    match body:
        case JsonCall():
            return _json_call(body, call)
        case NamedCall():
            if format.ids is IdRule.IN_NAME:
                name = f"functions.{name}:{index}"
            return f"{body.before_name}{name}{body.after_name}{call.arguments}{body.after_arguments}"
        case TagCall():
            parameters = "".join(_parameter(body, key, value) for key, value in arguments.items())
            return f"{body.before_name}{name}{body.after_name}{parameters}{body.after_parameters}"
        case PythonCall():
            return f"{name}({', '.join(f'{key}={_python(value)}' for key, value in arguments.items())})"
        case BraceCall():
            return f"{body.before_name}{name}{_braces(arguments, body.quote)}"


def _json_call(body: JsonCall, call: ToolCall) -> str:
    if body.name_is_key:
        return f"{{{json.dumps(call.name)}: {call.arguments}}}"
    own_id = [] if body.id_key is None else [f'"{body.id_key}": {json.dumps(call.id)}']
    main = [f'"{body.name_key}": {json.dumps(call.name)}', f'"{body.arguments_key}": {call.arguments}']
    return f"{{{', '.join(own_id + main if body.id_first else main + own_id)}}}"


def _parameter(body: TagCall, key: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if body.after_value.strip() in text:
        raise OptionError(
            f"a value cannot have the text {body.after_value.strip()!r} in it: it would end there"
        )
    before = body.before_json if body.before_json and not isinstance(value, str) else body.before_value
    return f"{body.before_key}{key}{body.after_key}{before}{text}{body.after_value}"


def _python(value: Any) -> str:
    match value:
        case dict():
            items = cast("dict[str, Any]", value).items()
            return "{" + ", ".join(f"{_python(key)}: {_python(item)}" for key, item in items) + "}"
        case list():
            return f"[{', '.join(_python(item) for item in cast('list[Any]', value))}]"
        case bool() | None:
            return repr(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _braces(value: Any, quote: str) -> str:
    match value:
        case dict():
            items = sorted(cast("dict[str, Any]", value).items())
            return "{" + ",".join(f"{key}:{_braces(item, quote)}" for key, item in items) + "}"
        case list():
            return f"[{','.join(_braces(item, quote) for item in cast('list[Any]', value))}]"
        case str():
            if quote in value:
                raise OptionError(f"a string cannot have the text {quote!r} in it: it would end there")
            return f"{quote}{value}{quote}"
        case _:
            return json.dumps(value)
