"""`ToolGrammar`: where in an answer calls may stand, as a grammar.

A call opens in one of two ways. Where its opening has a token of its own in the vocabulary, that token opens it
and is no text. Where it is spelled, it opens as soon as its last letter is written. Texts that are ordinary text
as well (`ToolCallFormat.known_names_only`) open a call only together with the name of a tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onnxgen.errors import OptionError
from onnxgen.preprocess.json_blanks import JSON_BLANKS
from onnxgen.preprocess.lark_text import ANYTHING, LarkText, escaped, one_of, quoted
from onnxgen.preprocess.tool_calls.bound import BoundFormat
from onnxgen.preprocess.tool_calls.call_grammar import CallText, call_text
from onnxgen.preprocess.tool_calls.layouts import Body, NamedCall, TagCall, ToolCallFormat
from onnxgen.preprocess.tool_calls.tools import ToolDefinition

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class ToolRule:
    """Which tools an answer may, or must, call.

    Attributes:
        bound: How the model writes calls.
        tools: What may be called.
        choice: ``auto``: the model decides; ``required``: calls and nothing else.
        name: The one tool that must be called, exactly once; then ``choice`` is of no account.
        parallel: Several calls may be made.
    """

    bound: BoundFormat
    tools: tuple[ToolDefinition, ...]
    choice: Literal["auto", "required"] = "auto"
    name: str | None = None
    parallel: bool = True

    def __post_init__(self) -> None:
        if not self.tools:
            raise OptionError("calls can only be made with tools: give at least one")
        names = [tool.name for tool in self.tools]
        if self.name is not None and self.name not in names:
            raise OptionError(
                f"tool_choice names {self.name!r}, which is none of the tools: {', '.join(names)}"
            )

    @property
    def offered(self) -> tuple[ToolDefinition, ...]:
        """The tools that may be called."""
        return tuple(tool for tool in self.tools if self.name in (None, tool.name))

    @property
    def is_required(self) -> bool:
        """Whether there has to be a call."""
        return self.choice == "required" or self.name is not None

    @property
    def is_single(self) -> bool:
        """Whether there may be one call at most."""
        return not self.parallel or self.name is not None


def banned_openings(bound: BoundFormat, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Tokens without which no call can open, to be banned where no tool may be called.

    Formats that spell their openings have none: there, text stays text because nothing reads calls in it.
    """
    lark = LarkText(tokenizer, markers=bound.characters)
    found = (
        piece for text in _openings(bound.format) for piece in lark.pieces(text) if isinstance(piece, int)
    )
    return tuple(sorted(set(found)))


class ToolGrammar:
    """Symbols for calls, and for text between them.

    Args:
        lark: Takes the rules.
        rule: What may be called.

    Raises:
        OptionError: The schema of a tool is nested too deeply.
    """

    def __init__(self, lark: LarkText, rule: ToolRule) -> None:
        self._lark = lark
        self._rule = rule
        self._format = rule.bound.format
        body = self._format.body
        self._calls: list[CallText] = []
        for tool in rule.offered:
            try:
                self._calls.append(call_text(lark, body, tool, self._format.ids))
            except RecursionError as cause:
                raise OptionError(f"the parameters of {tool.name!r} are nested too deeply") from cause
        self._first = self._calls[0].first
        self._call = lark.rule("call", f"{lark.literal(self._first)} {self._without_first()}".strip())

    def required(self) -> str:
        """Calls and nothing but blanks around them."""
        lark, format = self._lark, self._format
        if format.starts_named:
            return self._without_first() if self._rule.is_single else f"{self._without_first()} {self._call}*"
        blanks = lark.blanks()
        begins = [lark.literal(text.rstrip()) for text in (format.opening, *format.other_openings) if text]
        begin = f"({' | '.join(begins)}) {blanks}" if begins else ""
        block = lark.rule("block", f"{begin} {self._inside()}".strip())
        # Only the first block may lack its opening: an answer begins with it.
        first = (
            lark.rule("block", f"({begin})? {self._inside()}" if begins else block) if format.bare else block
        )
        if self._rule.is_single or (format.bare and not begins):
            return f"{lark.margin()} {first} {lark.margin()}"
        separator = lark.margin() if self._shares else self._separator()
        return f"{lark.margin()} {first} ({separator} {block})* {lark.margin()}"

    def auto(self) -> str:
        """Text in which calls may stand."""
        lark, format = self._lark, self._format
        sections = [*self._token_sections(), *self._spelled_sections()]
        text = lark.free_text(without=self._trigger_ids)
        tail = lark.free_text(without=self._trigger_ids, pattern=self._tail_pattern())
        if not sections:
            usual = after = text
        elif self._rule.is_single or self._is_open_ended:
            after = self._text_that_ends_calls() if self._is_open_ended else tail
            usual = lark.rule("usual", f"{text} | {one_of(sections)} {after}")
        else:
            usual = after = lark.rule("usual", f"({one_of(sections)})* {text}")
        if isinstance(format.body, NamedCall) and format.starts_named:
            named = f"{quoted(format.body.text_name)} {lark.loose(format.body.after_name)} {usual}"
            called = f"{self._without_first()} {after}"
            return one_of((lark.rule("named", named), lark.rule("named", called)))
        if format.bare:
            return one_of((usual, lark.rule("bare", f"{self._bare()} {after}")))
        return usual

    @property
    def _is_open_ended(self) -> bool:
        """Whether nothing but its separator says that a block goes on, or does not."""
        format = self._format
        return format.shared and not format.closing and not format.brackets

    def _text_that_ends_calls(self) -> str:
        separator = escaped(self._format.separator.strip())
        return self._lark.rule("after", f"/[ \\t\\r\\n]*([^ \\t\\r\\n{separator}](?s:.*))?/")

    @property
    def _shares(self) -> bool:
        return self._format.shared or self._format.brackets

    @property
    def _trigger_ids(self) -> tuple[int, ...]:
        ids = (
            next((p for p in self._lark.pieces(t) if isinstance(p, int)), None)
            for t in _openings(self._format)
        )
        return tuple(i for i in ids if i is not None)

    def _without_first(self) -> str:
        return self._lark.rule("called", one_of(f"({call.rest})" for call in self._calls))

    def _separator(self) -> str:
        separator = self._format.separator.strip()
        return f"{self._lark.blanks()} {self._lark.literal(separator)} {self._lark.blanks()}"

    def _inside(self, first: str | None = None, *, must_close: bool = True) -> str:
        """What stands between the opening and the end of a block, its closing included.

        Args:
            first: Symbols for the rest of the first call, if that has begun already.
            must_close: The closing may not be absent.
        """
        lark, format = self._lark, self._format
        calls = self._call if first is None else first
        if self._shares and not self._rule.is_single:
            calls = f"{calls} ({self._separator()} {self._call})*"
        if format.brackets:
            begin = f'"[" {lark.blanks()}' if first is None else ""
            calls = f'{begin} {calls} {lark.blanks()} "]"'
        if closing := format.closing.strip():
            end = f"{lark.blanks()} {lark.literal(closing)}"
            calls += f" {end}" if must_close else f" ({end})?"
        return lark.rule("inside", calls.strip())

    def _token_sections(self) -> list[str]:
        """Texts that end in a call whose opening has a token."""
        return [
            f"{self._lark.until(opening.rstrip())} {self._after(opening)}"
            for opening in _openings(self._format)
            if self._has_token(opening)
        ]

    def _spelled_sections(self) -> list[str]:
        """Texts that end in a call whose opening is spelled."""
        result: list[str] = []
        for opening in _openings(self._format):
            if self._has_token(opening):
                continue
            if not self._format.known_names_only:
                result.append(f"{self._lark.until(opening.rstrip())} {self._after(opening)}")
                continue
            for call in self._calls:
                begin = self._lark.rule("until", f"/(?s:.*){self._head(opening, call.head)}/", options="lazy")
                result.append(f"{begin} {self._inside(call.tail)}")
        return result

    def _has_token(self, opening: str) -> bool:
        return any(isinstance(piece, int) for piece in self._lark.pieces(opening.rstrip()))

    def _after(self, opening: str) -> str:
        """What follows an opening, which may be the beginning of a call itself."""
        if opening in (self._format.opening, *self._format.other_openings):
            return f"{self._lark.blanks()} {self._inside()}"
        return self._inside(self._without_first(), must_close=False)

    def _head(self, opening: str, head: str) -> str:
        blanks = f"({JSON_BLANKS})?"
        bracket = rf"\[{blanks}" if self._format.brackets else ""
        begin = escaped(opening.rstrip()) + blanks if opening and opening != self._first else ""
        return f"{begin}{bracket}{head}"

    def _bare(self) -> str:
        """Calls at the very beginning, without an opening."""
        ways: list[str] = []
        for call in self._calls:
            begin = self._lark.rule("until", f"/({JSON_BLANKS})?{self._head('', call.head)}/", options="lazy")
            ways.append(f"{begin} {self._inside(call.tail, must_close=False)}")
        return self._lark.rule("bare", one_of(ways))

    def _tail_pattern(self) -> str:
        """Text in which no call opens."""
        heads: list[str] = []
        for opening in _openings(self._format):
            if self._has_token(opening):
                continue
            if self._format.known_names_only:
                heads += [self._head(opening, call.head) for call in self._calls]
            else:
                heads.append(escaped(opening.rstrip()))
        if not heads:
            return f"/{ANYTHING}/"
        return f"/{ANYTHING}/ & ~/(?s:.*)({'|'.join(heads)})(?s:.*)/"


def _openings(format: ToolCallFormat) -> Sequence[str]:
    """Texts that open a call in the middle of an answer."""
    first = _first_text(format.body)
    listed = [text for text in (format.opening, *format.other_openings) if text.strip()]
    if (not format.opening or format.opening_optional) and first.strip() and not format.bare:
        listed.append(first)
    return listed


def _first_text(body: Body) -> str:
    return body.before_name if isinstance(body, NamedCall | TagCall) else ""
