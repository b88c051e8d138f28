"""`Grammar`: what the answer to a request must look like, said without a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from onnxgen.engine.constraints.json_text import json_text, read_json
from onnxgen.errors import GrammarError

GrammarKind = Literal["json_object", "json_schema", "regex", "lark", "choice", "llguidance"]

MAX_SOURCE_BYTES = 1 << 20
"""Longer grammars are refused (1 MiB)."""

MAX_CHOICE_LENGTH = 10_000
"""Longer texts are refused as choices, in characters."""

_KINDS = ("json_object", "json_schema", "regex", "lark", "choice", "llguidance")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar as text. Two of the same kind and text are the same grammar; it can be pickled.

    What can be checked without a tokenizer is checked here; the rest when
    `onnxgen.engine.constraints.compiler.GrammarCompiler` compiles it.

    Attributes:
        kind: ``json_object`` is any JSON object, ``json_schema`` a JSON Schema, ``regex`` a regular
            expression for the whole answer, ``lark`` a grammar in llguidance's dialect of Lark, ``choice`` one
            of some texts, ``llguidance`` a JSON document with a list of grammars, or Lark text, as that
            library reads them.
        source: The schema, the pattern, the grammar; for ``choice`` a JSON list of texts, for
            ``json_object`` nothing.
        fast_forward: Tokens that must follow may be written without asking the model.

    Raises:
        GrammarError: The kind is unknown, or the source is no text, too long, or no JSON where it must be.
    """

    kind: GrammarKind
    source: str
    fast_forward: bool = True

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise GrammarError(f"a grammar is one of {', '.join(_KINDS)}, not {self.kind!r}")
        source = cast("object", self.source)
        if not isinstance(source, str):
            raise GrammarError(f"the source of a {self.kind} grammar is text, got {type(source).__name__}")
        if self.kind != "json_object" and not source.strip() and self.kind != "regex":
            raise GrammarError(f"the {self.kind} grammar is empty")
        try:
            size = len(source.encode())
        except UnicodeEncodeError as error:
            raise GrammarError(f"the {self.kind} grammar holds half a surrogate pair: {error}") from error
        if size > MAX_SOURCE_BYTES:
            raise GrammarError(
                f"the {self.kind} grammar has {size} bytes, at most {MAX_SOURCE_BYTES} are taken: "
                "make it smaller"
            )

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls("json_object", "")

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any] | str | bool) -> Grammar:
        """JSON that a JSON Schema describes.

        Args:
            schema: The schema, or its JSON text. ``True`` is any JSON at all; ``False`` is refused when it is
                compiled, since nothing could be written. The order of keys counts: it is the order in which
                properties are written.

        Raises:
            GrammarError: It is no JSON, neither an object nor a boolean, or nested too deeply.
        """
        value = read_json(schema, what="JSON schema") if isinstance(schema, str) else schema
        if not isinstance(value, Mapping | bool):
            raise GrammarError(f"a JSON schema is an object or a boolean, got {type(value).__name__}")
        return cls("json_schema", json_text(value, what="JSON schema"))

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that a regular expression matches from its beginning to its end (Rust's syntax)."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Text of a context-free grammar in llguidance's dialect of Lark; its rule ``start`` is the answer.

        ``<|name|>`` names a special token of the tokenizer, ``%json {...}`` holds a JSON Schema.
        """
        return cls("lark", text)

    @classmethod
    def choice(cls, texts: Iterable[str]) -> Grammar:
        """One of some texts, as they are.

        Raises:
            GrammarError: There are none, or one is no text.
        """
        if isinstance(texts, (str, Mapping)) or not isinstance(texts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GrammarError(f"choices are a list of texts, got {texts!r:.60}")
        listed = list(texts)
        for place, text in enumerate(listed):
            if not isinstance(cast("object", text), str):
                raise GrammarError(f"choice {place} is {text!r:.60}, which is no text")
            if len(text) > MAX_CHOICE_LENGTH:
                raise GrammarError(
                    f"choice {place} has {len(text)} characters, at most {MAX_CHOICE_LENGTH} are taken"
                )
        if not listed:
            raise GrammarError("there are no choices: give at least one text")
        return cls("choice", json.dumps(listed, ensure_ascii=False))

    @classmethod
    def llguidance(cls, grammar: Mapping[str, Any] | str) -> Grammar:
        """A grammar as llguidance itself takes it: a document ``{"grammars": [...]}``, its text, or Lark."""
        if isinstance(grammar, str):
            return cls("llguidance", grammar)
        return cls("llguidance", json_text(grammar, what="llguidance grammar"))

    def with_fast_forward(self, fast_forward: bool) -> Grammar:
        """The same grammar, with tokens that must follow written without the model, or not."""
        return replace(self, fast_forward=fast_forward)
