"""What is asked: things described by a schema, a list to copy, a story."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Encode = Callable[[str], list[int]]

KINDS = ["household", "garden", "electronics", "clothing"]
THINGS = ("chair", "lamp", "bench", "radio", "shirt", "clock", "table", "phone")
ITEMS = (
    *("a red lamp for the hall", "two wooden chairs", "a garden table", "six white plates"),
    *("a clock for the kitchen", "three wool blankets", "a bag of apples", "one small radio"),
    *("green paint for the door", "a map of the old town", "four candles", "a book of songs"),
    *("a bottle of oil", "ten brass screws", "a pair of gloves", "soap and towels"),
)
COPIED_TOKENS = 80
"""So far SmolLM2 copies the list without a mistake, in the int4 forms of all programs."""


def one_thing(another_kind: str = "toys") -> dict[str, Any]:
    """A schema for a thing of a shop; with another kind it is another schema."""
    properties = {
        "name": {"type": "string", "maxLength": 40},
        "kind": {"enum": [*KINDS, another_kind]},
        "price": {"type": "integer", "minimum": 0, "maximum": 9999},
        "available": {"type": "boolean"},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def many_things(another_kind: str = "toys") -> str:
    """JSON text of a schema for so many things that no answer ends before its length is reached."""
    return json.dumps({"type": "array", "minItems": 40, "items": one_thing(another_kind)})


def things(encode: Encode) -> list[list[int]]:
    """Eight questions of one length, in tokens."""
    prompts = [encode(_chat(f"Describe a {thing} of a shop, as JSON.")) for thing in THINGS]
    assert len({len(prompt) for prompt in prompts}) == 1, "some programs take prompts of one length only"
    return prompts


def list_to_copy(encode: Encode) -> tuple[list[int], list[int]]:
    """A prompt that a list follows again, and the tokens of that list."""
    listed = "".join(f"{number}. {item}\n" for number, item in enumerate(ITEMS, 1))
    return encode(f"My list:\n{listed}\nA copy of my list:\n"), encode(listed)


def story(encode: Encode) -> list[int]:
    """A prompt whose answer has little to do with it."""
    return encode(_chat("Tell me a story about a lighthouse."))


def _chat(text: str) -> str:
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
