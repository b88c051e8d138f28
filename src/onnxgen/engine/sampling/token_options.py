"""Options that hold token ids: taken in the forms that callers write, kept as tuples that can be hashed and compared.

A token id is an integer of at least 0 here; whether the vocabulary has it, `check_ids` says where one is known.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from onnxgen.engine.sampling.checks import check_integer, check_number
from onnxgen.errors import OptionError, TokenIdError

Pairs = tuple[tuple[int, float], ...]
Places = tuple[tuple[int, int], ...]
Words = tuple[tuple[int, ...], ...]

_T = TypeVar("_T")

STRONGEST_BIAS = 100.0
"""What OpenAI's API takes at most, either way."""


def token_ids(name: str, value: object) -> tuple[int, ...]:
    """A list of token ids.

    Raises:
        OptionError: It is no list, or holds something else.
    """
    return tuple(_id(name, token) for token in _items(name, value, "a list of token ids"))


def token_words(name: str, value: object) -> Words:
    """A list of token sequences, none of them empty.

    Raises:
        OptionError: It is something else.
    """
    words = tuple(token_ids(name, word) for word in _items(name, value, "a list of lists of token ids"))
    if () in words:
        raise OptionError(
            f"{name} must hold lists of at least one token id, the one at {words.index(())} is empty"
        )
    return words


def token_biases(name: str, value: object) -> Pairs:
    """Token ids with what is added to their logits, by rising id: -100 to 100, or minus infinity.

    Args:
        name: The option.
        value: A mapping, or pairs.

    Raises:
        OptionError: It is neither, a number is out of range, or an id comes twice.
    """
    pairs = (
        value.items()
        if isinstance(value, Mapping)
        else _items(name, value, "a mapping of token ids to numbers")
    )
    return _by_first(
        name, ((_id(name, token), token_bias(name, number)) for token, number in _pairs(name, pairs))
    )


def token_places(name: str, value: object) -> Places:
    """Places in the answer with the token ids that must stand there, by rising place.

    Args:
        name: The option.
        value: A mapping, pairs, or the token ids of places 0, 1, 2, ... alone.

    Raises:
        OptionError: It is none of these, a number is out of range, or a place comes twice.
    """
    if isinstance(value, Mapping):
        pairs: Iterable[Any] = value.items()
    else:
        items = _items(name, value, "a list of token ids, or of (place, token id)")
        pairs = enumerate(items) if not any(isinstance(item, Sequence) for item in items) else items
    return _by_first(
        name,
        (
            (check_integer(f"a place in {name}", at, low=0), _id(name, token))
            for at, token in _pairs(name, pairs)
        ),
    )


def check_known(name: str, ids: Iterable[int], vocab_size: int) -> None:
    """Check ids against a vocabulary.

    Raises:
        TokenIdError: Naming the option, the id and the range.
    """
    worst = max(ids, default=-1)
    if worst >= vocab_size:
        raise TokenIdError(f"token id {worst} of {name} is outside [0, {vocab_size})")


def _id(name: str, value: object) -> int:
    return check_integer(f"a token id of {name}", value, low=0)


def token_bias(name: str, value: object) -> float:
    """What is added to a logit: -100 to 100, or minus infinity.

    Raises:
        OptionError: It is something else.
    """
    if value == -math.inf:
        return -math.inf
    return check_number(f"a bias of {name}", value, low=-STRONGEST_BIAS, high=STRONGEST_BIAS)


def _items(name: str, value: object, wanted: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise OptionError(f"{name} must be {wanted}, got {value!r:.60}")
    return value  # pyright: ignore[reportUnknownVariableType]


def _pairs(name: str, items: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
    for item in items:
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:  # pyright: ignore[reportUnknownArgumentType]
            raise OptionError(f"{name} must hold pairs, got {item!r:.60}")
        yield item[0], item[1]


def _by_first(name: str, pairs: Iterable[tuple[int, _T]]) -> tuple[tuple[int, _T], ...]:
    ordered = sorted(pairs, key=lambda pair: pair[0])
    for (first, _), (second, _) in itertools.pairwise(ordered):
        if first == second:
            raise OptionError(f"{name} has {first} twice")
    return tuple(ordered)
