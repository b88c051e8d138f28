"""`LarkText`: a grammar in llguidance's dialect of Lark, put together rule by rule.

The dialect: https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnxgen.preprocess.grammar_names import is_name
from onnxgen.preprocess.json_blanks import JSON_BLANKS

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

ANYTHING = r"(?s:.+)"
"""Any text at all, but the empty one; a regular expression."""


class LarkText:
    """Collects rules; names are made of a word and a number, so that no rule has the name of another.

    Names of the vocabulary (see `is_name`) are symbols of their own, which are not text: `literal` writes them
    where they stand in a text, so that the model gives the token and not its letters.

    Args:
        tokenizer: The model's.
        markers: Ids of more added tokens that are names.
    """

    def __init__(self, tokenizer: Tokenizer, *, markers: Collection[int] = ()) -> None:
        self._named = {
            t.text: t for t in tokenizer.added_tokens if t.text and (is_name(t) or t.id in markers)
        }
        self._rules: dict[str, str] = {}
        self._names: dict[str, str] = {}  # by what stands in the rule

    def rule(self, word: str, body: str, *, options: str = "") -> str:
        """Add a rule; gives its name. The same rule is added once.

        Args:
            word: What its name begins with; in capitals for a terminal.
            body: What it stands for.
            options: ``lazy``, say.
        """
        key = f"{word}[{options}]: {body}"
        if key not in self._names:
            name = f"{word}_{len(self._rules)}"
            self._names[key] = name
            self._rules[name] = f"{name}[{options}]: {body}" if options else f"{name}: {body}"
        return self._names[key]

    def declare(self, word: str) -> str:
        """The name of a rule that says later, by `define`, what it stands for: itself may be part of that."""
        name = f"{word}_{len(self._rules)}"
        self._rules[name] = ""
        return name

    def define(self, name: str, body: str) -> None:
        """Say what a declared rule stands for."""
        self._rules[name] = f"{name}: {body}"

    def text(self, start: str) -> str:
        """The whole grammar; ``start`` is what an answer is."""
        return "\n".join([f"start: {start}", *self._rules.values(), ""])

    def pieces(self, text: str) -> list[str | int]:
        """A text cut at the names in it, which are given as ids; the leftmost, of those the longest."""
        inside = sorted((t for t in self._named if t in text), key=len, reverse=True)
        if not inside:
            return [text] if text else []
        parts = re.split(f"({'|'.join(map(re.escape, inside))})", text)
        return [self._named[part].id if part in self._named else part for part in parts if part]

    def literal(self, text: str) -> str:
        """Symbols for exactly this text; nothing for an empty one."""
        return " ".join(
            quoted(piece) if isinstance(piece, str) else token(piece) for piece in self.pieces(text)
        )

    def opening(self, text: str) -> str:
        """Symbols for a text that decides what comes after it as soon as it is complete."""
        if any(isinstance(piece, int) for piece in self.pieces(text)):
            return self.loose(text)
        return f"{self.rule('opening', f'/{escaped(text.rstrip())}/', options='lazy')} {self.blanks()}"

    def json(self, schema: Mapping[str, Any] | bool) -> str:
        """A symbol for JSON by a JSON Schema."""
        return self.rule(
            "json",
            "%json " + json.dumps(schema if isinstance(schema, Mapping) else {} if schema else {"not": {}}),
        )

    def blanks(self) -> str:
        """A symbol for blanks, or none."""
        return self.rule("BLANKS", f"/{JSON_BLANKS}/") + "?"

    def margin(self) -> str:
        """A symbol for blanks around what an answer consists of, or none; a few lines at most."""
        return self.rule("MARGIN", r"/[ \t\r\n]{1,8}/") + "?"

    def loose(self, text: str) -> str:
        """Symbols for a text in which blanks at the ends may be others, or absent."""
        end = self.blanks() if text[-1:].isspace() and not text.isspace() else ""
        return f"{self.blanks_before(text.rstrip() or text)} {end}".strip()

    def blanks_before(self, text: str) -> str:
        """Symbols for a text in which blanks at the beginning may be others, or absent."""
        begin = self.blanks() if text[:1].isspace() else ""
        return f"{begin} {self.literal(text.lstrip())}".strip()

    def until(self, closing: str, *, first: str = "") -> str:
        """A symbol for any text that goes up to a closing one, that one included.

        Args:
            closing: A text; only where it stands for the first time may the text end.
            first: A regular expression in front of ``closing``, instead of any text.
        """
        pieces = self.pieces(closing)
        at = next((n for n, piece in enumerate(pieces) if not isinstance(piece, str)), None)
        if at is None:
            lazy = self.rule("until", f"/{first or '(?s:.*)'}{escaped(closing)}/", options="lazy")
            return lazy if first else self.rule("until", f"{self._shown_before()} {lazy}".strip())
        named = pieces[at]
        assert isinstance(named, int)
        rest = " ".join(quoted(p) if isinstance(p, str) else token(p) for p in pieces[at:])
        text = self.free_text(without=(named,))
        if at == 0:
            return self.rule("until", f"{text} {rest}")
        before = pieces[0]
        assert isinstance(before, str)
        last = self.rule("TEXT", f"/(?s:.*){escaped(before)}/")
        return self.rule("until", f"{self._shown_before(named)} {last} {rest}".strip())

    def _shown_before(self, *without: int) -> str:
        """Any text up to and including a name that is text, any number of times."""
        shown = self._shown(without)
        if not shown:
            return ""
        return f"({self.rule('TEXT', f'/{ANYTHING}/')}? {_tokens(shown)})*"

    def _shown(self, without: Collection[int]) -> list[int]:
        return [t.id for t in self._named.values() if not t.special and t.id not in without]

    def free_text(self, *, without: Sequence[int] = (), pattern: str = f"/{ANYTHING}/") -> str:
        """A symbol for text, which may be empty.

        Control tokens are no text. Other names are, unless they are among ``without``.

        Args:
            without: Ids of names that are not text here.
            pattern: A terminal's body: what the text between names may be.
        """
        shown = self._shown(without)
        terminal = self.rule("TEXT", pattern)
        if not shown:
            return self.rule("text", f"{terminal}?")
        return self.rule("text", f"{terminal}? ({_tokens(shown)} {terminal}?)*")


def escaped(text: str) -> str:
    """A text as part of a regular expression that matches it."""
    return (
        re.sub(r"([\\.+*?()|\[\]{}^$#&~/-])", r"\\\1", text)
        .replace("\n", r"\n")
        .replace("\r", r"\r")
        .replace("\t", r"\t")
    )


def quoted(text: str) -> str:
    """A text as a string of the grammar."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def pattern(regex: str) -> str:
    """A regular expression as a terminal of the grammar."""
    escaped = re.sub(r"(?s)\\(.)|/", lambda match: match[0] if match[1] else r"\/", regex)
    return "/" + escaped.replace("\r", r"\r").replace("\n", r"\n") + "/"


def token(token_id: int) -> str:
    """A token as a symbol of the grammar."""
    return f"<[{token_id}]>"


def one_of(symbols: Iterable[str]) -> str:
    """Alternatives as one symbol."""
    listed = list(dict.fromkeys(symbols))
    return listed[0] if len(listed) == 1 else f"({' | '.join(listed)})"


def _tokens(ids: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for token_id in sorted(ids):
        if ranges and ranges[-1][1] == token_id - 1:
            ranges[-1][1] = token_id
        else:
            ranges.append([token_id, token_id])
    return f"<[{','.join(f'{a}-{b}' if a < b else str(a) for a, b in ranges)}]>"
