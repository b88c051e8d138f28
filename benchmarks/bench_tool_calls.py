"""What finding tool calls costs: a token of plain text, and hostile answers in pieces of one character.

    python benchmarks/bench_tool_calls.py [--format NAME] [--chars 100000]

Prints for each format the microseconds of a token without calls, and of the hostile answers the slowest: repeated
openings, near-markers, deep nesting, strings and names without an end, and mixtures of all texts of the format.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

from onnxgen.preprocess.tool_calls.bound import BoundFormat, bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import read_tools

TOOLS = read_tools([{"name": "f", "parameters": {"properties": {"x": {"type": "string"}}}}])
TEXT = "The quick brown fox , jumps over the lazy dog . And then \n it went"
WORDS = [f" {word}" for word in TEXT.split(" ")]


def hostile(bound: BoundFormat, chars: int) -> Iterator[tuple[str, str]]:
    for opening in bound.openings.markers or ("{", "["):
        yield "openings", opening * chars
        yield "near-markers", (opening[:-1] or opening) * chars
        yield "nested lists", opening + "[" * chars
        yield "nested objects", opening + '{"a":' * chars
        yield "no end of a string", opening + '{"name":"' + "x" * chars
        yield "escapes", opening + '{"name":"' + "\\\\" * chars
        yield "no end of a name", opening + "f" * chars
        yield "blanks", opening + " " * chars
        yield "bodies cut short", (opening + '{"name": "f", "arguments": {"x') * chars
    texts = [*bound.openings.markers, *bound.closings.markers, *bound.value_ends.markers]
    texts += ["{", "}", "[", "]", '"', "'", "(", ":", ",", "\n", "f", "<", "name", "call:f{"]
    draw = random.Random(0)
    yield "a mixture", "".join(draw.choice(texts) for _ in range(chars))


def seconds(bound: BoundFormat, text: str) -> float:
    parser = ToolCallParser(bound, TOOLS)
    start = time.perf_counter()
    for character in text:
        parser.push(character)
    parser.flush(complete=True)
    return time.perf_counter() - start


def microseconds_of_plain_tokens(bound: BoundFormat) -> float:
    parser = ToolCallParser(bound, TOOLS)
    tokens = WORDS * 1000
    start = time.perf_counter()
    for token_id, token in enumerate(tokens):
        parser.push(token, token_id)
    return (time.perf_counter() - start) / len(tokens) * 1e6


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--format", choices=FORMATS)
    options.add_argument("--chars", type=int, default=100_000)
    asked = options.parse_args()
    for name in [asked.format] if asked.format else FORMATS:
        bound = bind(FORMATS[name], None)
        plain = min(microseconds_of_plain_tokens(bound) for _ in range(3))
        slowest, kind = max(
            (seconds(bound, t[: asked.chars]), kind) for kind, t in hostile(bound, asked.chars)
        )
        print(f"{name:20} {plain:5.2f} us a plain token   {slowest:5.2f} s at most ({kind})", flush=True)


if __name__ == "__main__":
    main()
