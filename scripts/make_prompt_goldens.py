"""Makes tests/data/tool_calls/prompts/*.txt: a conversation with tool calls as chat templates render it.

Needs transformers, which the project itself does not use: its renderer is the reference. It gets the messages of
conversation.json in the form that the template at hand was written for, which is said below by hand; the project
finds that out by itself.

    python scripts/make_prompt_goldens.py
"""

import json
from pathlib import Path

from transformers.utils.chat_template_utils import render_jinja_template

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "data" / "tool_calls" / "prompts"
NAMED = {"bos_token": "<s>", "eos_token": "</s>"}

ARGUMENTS_AS_TEXT = {"deepseek-v3.1"}
IDS = {"kimi-k2": {"callid001": "functions.get_weather:0", "callid002": "functions.now:1"}}


def main() -> None:
    text = (FOLDER / "conversation.json").read_text(encoding="utf-8")
    for template in sorted(FOLDER.glob("*.jinja")):
        family = template.stem
        given = json.loads(text)
        messages = [in_form(message, family) for message in given["messages"]]
        source = template.read_text(encoding="utf-8")
        rendered, _ = render_jinja_template(
            [messages], tools=given["tools"], chat_template=source, add_generation_prompt=True, **NAMED
        )
        (FOLDER / f"{family}.txt").write_text(rendered[0], encoding="utf-8")


def in_form(message: dict, family: str) -> dict:
    """A message as the template of a family wants it."""
    ids = IDS.get(family, {})
    result = dict(message)
    if "tool_call_id" in result:
        result["tool_call_id"] = ids.get(result["tool_call_id"], result["tool_call_id"])
    if "tool_calls" in result:
        result["content"] = ""
        result["tool_calls"] = [call_in_form(call, family, ids) for call in result["tool_calls"]]
    if isinstance(result["content"], list):
        result["content"] = "".join(part["text"] for part in result["content"])
    return result


def call_in_form(call: dict, family: str, ids: dict) -> dict:
    """A call as the template of a family wants it."""
    function = dict(call["function"])
    arguments = function["arguments"] or "{}"
    function["arguments"] = arguments if family in ARGUMENTS_AS_TEXT else json.loads(arguments)
    return {**call, "id": ids.get(call["id"], call["id"]), "function": function}


if __name__ == "__main__":
    main()
