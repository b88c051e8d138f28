"""Which format a model writes its calls in, found out from its chat template."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from onnxgen.errors import ChatTemplateError, OptionError
from onnxgen.foundations.suggest import did_you_mean
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.template_files import DEFAULT, TemplateText
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.tool_calls.bound import BoundFormat, bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.layouts import ToolCallFormat
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import ToolCall, read_tools
from onnxgen.preprocess.tool_calls.writing import write_calls

__all__ = ["BoundFormat", "bind", "find_tool_call_format", "named_tool_call_format"]

_TOOL = {
    "type": "function",
    "function": {
        "name": "look_k7q",
        "description": "A probe.",
        "parameters": {
            "type": "object",
            "properties": {"v9x": {"type": "string", "description": "A key."}},
            "required": ["v9x"],
        },
    },
}
_CALL = ToolCall("callid001", "look_k7q", '{"v9x": "w3z"}')
_QUESTION = {"role": "user", "content": "u5d"}
_IN_WORDS = {"role": "assistant", "content": "a4n"}


def named_tool_call_format(name: str) -> ToolCallFormat:
    """The format of a name.

    Raises:
        OptionError: There is none of that name.
    """
    if name not in FORMATS:
        hint = did_you_mean(name, FORMATS)
        raise OptionError(f"there is no tool-call format {name!r}{hint}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def find_tool_call_format(template_text: str | None, tokenizer: Tokenizer | None) -> ToolCallFormat | None:
    """Find out in which format a model writes calls.

    The template writes a call, as it does for the calls of earlier turns: of the formats that read it back the
    one that would write it so counts. Where the template writes none, the texts in it count, then tokens of the
    vocabulary, these only if the template has a word on tools or there is no template.

    Args:
        template_text: Text of the chat template that is used with tools; None: there is none.
        tokenizer: The model's; None: its vocabulary does not count.

    Returns:
        None for a model that shows none.
    """
    text = template_text or ""
    own = (format for format in FORMATS.values() if format.has_own_parser and _shows(format, text))
    if (found := next(own, None)) is not None:
        return found
    written = _written_call(text, tokenizer) if "tool" in text else None
    if written is not None and (found := _reader_of(written)) is not None:
        return found
    if (found := next((format for format in FORMATS.values() if _shows(format, text)), None)) is not None:
        return found
    if tokenizer is None or (text and "tools" not in text):
        return None
    tokens = {token.text for token in tokenizer.added_tokens}
    return next((format for format in FORMATS.values() if _is_of(format, tokens)), None)


def _shows(format: ToolCallFormat, template: str) -> bool:
    signs = _signs(format)
    return bool(signs) and all(sign in template for sign in signs)


def _is_of(format: ToolCallFormat, tokens: Iterable[str]) -> bool:
    return bool(format.opening) and all(sign in tokens for sign in _signs(format))


def _signs(format: ToolCallFormat) -> tuple[str, ...]:
    return format.signs or tuple(text for text in (format.opening.strip(),) if text)


def _written_call(template: str, tokenizer: Tokenizer | None) -> str | None:
    """What the template writes for an answer that makes a call; None if it refuses."""
    special_tokens = tokenizer.special_tokens if tokenizer else {}
    chat = ChatTemplate({DEFAULT: TemplateText(template, "the chat template")}, special_tokens=special_tokens)
    function = {"name": _CALL.name, "arguments": _CALL.arguments}
    call = {"id": _CALL.id, "type": "function", "function": function}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    try:
        whole = chat.render([_QUESTION, answer], tools=[_TOOL], add_generation_prompt=False)
    except ChatTemplateError:
        return None
    begins = 0
    # An answer begins where one with a call differs from one in words, and behind the header for a new one.
    for messages, wants_header in (([_QUESTION, _IN_WORDS], False), ([_QUESTION], True)):
        try:
            other = chat.render(messages, tools=[_TOOL], add_generation_prompt=wants_header)
        except ChatTemplateError:
            continue
        begins = max(begins, _num_same(whole, other))
    return whole[begins:]


def _num_same(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


def _reader_of(written: str) -> ToolCallFormat | None:
    readers = [format for format in FORMATS.values() if not format.has_own_parser and _reads(format, written)]
    bare = _without_blanks(written)
    exact = (format for format in readers if _without_blanks(write_calls(format, [_CALL])) in bare)
    return next(exact, None) or next(iter(readers), None)


def _reads(format: ToolCallFormat, written: str) -> bool:
    parser = ToolCallParser(bind(format, None), read_tools([_TOOL]))
    calls = [*parser.push(written).calls, *parser.flush(complete=True).calls]
    found = [(call.name, json.loads(call.arguments)) for call in calls]
    return found == [(_CALL.name, json.loads(_CALL.arguments))]


def _without_blanks(text: str) -> str:
    return re.sub(r"\s", "", text)
