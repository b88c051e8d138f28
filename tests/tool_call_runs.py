"""Answers with tool calls, and how a parser takes them."""

import itertools
import json
from pathlib import Path

from onnxgen.preprocess.detokenizer import IncrementalDetokenizer
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import read_tools

DATA = Path(__file__).parent / "data" / "tool_calls"
TOOLS = read_tools(json.loads((DATA / "tools.json").read_text(encoding="utf-8")))
PARSED = tuple(name for name, format in FORMATS.items() if not format.has_own_parser)


def cases(name):
    """The golden cases of a format: model text, and what it says."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


class Run:
    """One answer, piece by piece; ``content``, ``calls`` and ``offsets``, where in the text each was given."""

    def __init__(self, format, *, tools=TOOLS, tokenizer=None, short_ids=False):
        ids = itertools.count()
        self.bound = bind(format, tokenizer, short_ids=short_ids)
        self.parser = ToolCallParser(self.bound, tools, new_id=lambda: f"{next(ids):09}")
        self.content, self.calls, self.offsets, self.size = "", [], [], 0

    def push(self, text, token_id=None):
        self.size += len(text)
        self._take(self.parser.push(text, token_id))

    def end(self, *, complete=True):
        self._take(self.parser.flush(complete=complete))
        return self

    def _take(self, parsed):
        self.content += parsed.content
        self.calls += parsed.calls
        self.offsets += [self.size] * len(parsed.calls)

    @property
    def said(self):
        return [(call.name, call.arguments) for call in self.calls]


def parse(format, text, *, step=None, complete=True, **options):
    """Parse a whole text, in pieces of so many characters."""
    run = Run(FORMATS[format] if isinstance(format, str) else format, **options)
    for at in range(0, len(text), step or max(1, len(text))):
        run.push(text[at : at + (step or len(text))])
    return run.end(complete=complete)


def parse_tokens(format, ids, tokenizer, **options):
    """Parse the answer that some tokens are."""
    run = Run(FORMATS[format], tokenizer=tokenizer, **options)
    detokenizer = IncrementalDetokenizer(tokenizer, shown_ids=run.bound.shown_ids)
    for token_id in ids:
        run.push(detokenizer.push(token_id), token_id)
    run.push(detokenizer.flush())
    return run.end()
