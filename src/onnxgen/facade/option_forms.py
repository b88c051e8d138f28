"""Generation options that callers may write in several forms: texts, token ids, and what belongs to tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from onnxgen.engine.sampling.checks import check_integer
from onnxgen.engine.sampling.token_options import token_bias, token_places
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import OptionError
from onnxgen.foundations.suggest import did_you_mean


def texts(name: str, value: object) -> tuple[str, ...]:
    """One text or several.

    Raises:
        OptionError: It is something else, or a text is empty.
    """
    if isinstance(value, str):
        value = (value,)
    if isinstance(value, bytes) or not isinstance(value, Sequence):
        raise OptionError(f"{name} must be a text or a list of texts, got {value!r:.60}")
    for text in cast("Sequence[object]", value):
        if not isinstance(text, str) or not text:
            raise OptionError(f"{name} must hold texts that are not empty, got {text!r:.60}")
    return tuple(cast("Sequence[str]", value))


def ids(name: str, value: object) -> tuple[int, ...]:
    """A list of token ids.

    Raises:
        OptionError: It is something else.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise OptionError(f"{name} must be a list of token ids, got {value!r:.60}")
    return tuple(check_integer(name, token, low=0) for token in cast("Sequence[object]", value))


def words(value: object) -> tuple[str | tuple[int, ...], ...]:
    """Texts and sequences of token ids that are not wanted, none of them empty.

    Raises:
        OptionError: It is something else.
    """
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise OptionError(f"bad_words must be a list of texts or of lists of token ids, got {value!r:.60}")
    found = tuple(
        word if isinstance(word, str) else ids("bad_words", word) for word in cast("Sequence[object]", value)
    )
    if not all(found):
        raise OptionError(f"bad_words must hold words that are not empty, got {value!r:.60}")
    return found


def biases(value: object) -> dict[int | str, float] | None:
    """What is added to the logits of tokens, which are named by id or by text.

    Raises:
        OptionError: It is no mapping, or a name or a number is out of range.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise OptionError(f"logit_bias must be a mapping of tokens to numbers, got {value!r:.60}")
    named = cast("Mapping[object, object]", value)
    return {
        token
        if isinstance(token, str) and token
        else check_integer("logit_bias must name texts or token ids; an id", token, low=0): token_bias(
            "logit_bias", bias
        )
        for token, bias in named.items()
    }


def forced(value: object) -> str | Sequence[int] | dict[int, int]:
    """What an answer begins with: a text, token ids, or places with their token ids.

    Raises:
        OptionError: It is something else, or a number is out of range.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return dict(token_places("forced_tokens", value))
    return ids("forced_tokens", value)


def read_speculation(value: object) -> Speculation | None:
    """How tokens are guessed ahead: the options, a mapping of them, or the name of a method.

    Raises:
        OptionError: It is something else, or a value is out of range.
    """
    if value is None or isinstance(value, Speculation):
        return value
    if isinstance(value, str):
        return Speculation(cast("Any", value))
    if not isinstance(value, Mapping):
        raise OptionError(
            f"speculation must be Speculation options or the name of a method, got {value!r:.60}"
        )
    given, known = cast("Mapping[str, Any]", value), [field.name for field in fields(Speculation)]
    for name in given:
        if name not in known:
            raise OptionError(
                f"unknown option {name!r} of speculation{did_you_mean(str(name), known)} (known: {', '.join(known)})"
            )
    return Speculation(**given)
