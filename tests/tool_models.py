"""A tiny model folder that offers tools, calls them as Hermes models do, marks reasoning, and answers from a script."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fake_recipe import scripted_backend
from onnxgen.facade.llm import LLM
from onnxgen.preprocess.chat_template import ChatTemplate
from tiny_model_folder import open_llm, with_template, write_model_folder

CONTEXT = 4096
TEMPLATE = """\
{{ bos_token }}{% for t in tools or [] %}({{ t.function.name }}){% endfor %}
{%- for m in messages %}[{{ m.role }}]{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}{{ eos_token }}{% endfor %}
{%- if add_generation_prompt %}[assistant]{% endif %}{# <think></think> #}"""
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("weather", "time")
]


def call_text(name: str, **arguments: Any) -> str:
    """A call as the model writes it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def user(text: str) -> dict[str, str]:
    """What a user says."""
    return {"role": "user", "content": text}


def result(text: str) -> dict[str, str]:
    """What a tool gives."""
    return {"role": "tool", "content": text}


def calling(*names: str, text: str = "") -> dict[str, Any]:
    """An answer that calls tools without arguments."""
    calls = [{"type": "function", "function": {"name": name, "arguments": "{}"}} for name in names]
    return {"role": "assistant", "content": text, "tool_calls": calls}


def write_tool_folder(folder: Path, *, template: str = TEMPLATE) -> Path:
    """Write the folder."""
    return with_template(write_model_folder(folder, context=CONTEXT), template)


def prompt_text(folder: Path, messages: Sequence[Mapping[str, Any]], *, tools: Any = TOOLS) -> str:
    """The prompt of a conversation."""
    return ChatTemplate.require(folder).render(messages, tools=tools)


def tool_backend(
    folder: Path,
    answers: Sequence[tuple[Sequence[Mapping[str, Any]], str]],
    *,
    tools: Any = TOOLS,
    **options: Any,
) -> Any:
    """A backend that answers conversations with texts."""
    script = {prompt_text(folder, messages, tools=tools): text for messages, text in answers}
    return scripted_backend(folder, script, **options)


def tool_llm(
    folder: Path,
    answers: Sequence[tuple[Sequence[Mapping[str, Any]], str]],
    *,
    tools: Any = TOOLS,
    **options: Any,
) -> LLM:
    """A model that answers conversations with texts."""
    return open_llm(folder, tool_backend(folder, answers, tools=tools, **options))
