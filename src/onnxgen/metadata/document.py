"""Documents of plain values (JSON, YAML) to frozen dataclasses, strictly.

The dataclass is the schema: its field names are the keys, its annotations say what may stand there, its
defaults say what may be left out. Understood are ``int``, ``float``, ``bool``, ``str``, ``Any``,
``X | None``, ``Literal``, ``tuple[X, ...]``, ``Mapping[str, X]``, nested dataclasses, ``Annotated`` with
checks or a reader of its own. Everything else in the document is an error that names the file and the
path of keys that leads there.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any, TypeVar, cast

from onnxgen.errors import MetadataError
from onnxgen.foundations.files import check_relative
from onnxgen.foundations.json_text import json_kind
from onnxgen.foundations.suggest import did_you_mean

T = TypeVar("T")

_INT32 = range(-(2**31), 2**31)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a document, for messages.

    Attributes:
        source: The file.
        path: Keys from the root, such as ``model.decoder.pipeline[0]``; empty at the root.
    """

    source: object
    path: str = ""

    def key(self, name: str) -> Place:
        """The value of a key of the object here."""
        return Place(self.source, f"{self.path}.{name}" if self.path else name)

    def item(self, index: int) -> Place:
        """An item of the array here."""
        return Place(self.source, f"{self.path}[{index}]")

    def error(self, message: str) -> MetadataError:
        """An error that begins with this place."""
        return MetadataError(f"{self.source}: {self.path or 'the document'} {message}")


Reader = Callable[[Any, Place], Any]
"""Turns the value at a place into what the schema says, or raises `MetadataError`."""


@dataclass(frozen=True, slots=True)
class ReadBy:
    """First in an ``Annotated``: reads the value in place of the annotated type's own reader."""

    reader: Reader


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Check: a number has a lower bound."""

    minimum: float

    def __call__(self, value: Any, place: Place) -> Any:
        """Pass the value on, or refuse it."""
        if value < self.minimum:
            raise place.error(f"is {value!r}; it must be at least {self.minimum:g}")
        return value


@dataclass(frozen=True, slots=True)
class Between:
    """Check: a number lies in an interval; ``open_below`` excludes its lower end."""

    minimum: float
    maximum: float
    open_below: bool = False

    def __call__(self, value: Any, place: Place) -> Any:
        """Pass the value on, or refuse it."""
        below = value <= self.minimum if self.open_below else value < self.minimum
        if below or value > self.maximum:
            interval = f"{'(' if self.open_below else '['}{self.minimum:g}, {self.maximum:g}]"
            raise place.error(f"is {value!r}; it must lie in {interval}")
        return value


def relative_file(value: Any, place: Place) -> Any:
    """Check: a file name stays inside the folder. An empty one says that there is no file."""
    if value:
        check_relative(value, where=f"{place.source}: {place.path}", error=MetadataError)
    return value


def read_document(schema: type[T], document: object, place: Place) -> T:
    """Read an object into the dataclass ``schema``.

    Raises:
        MetadataError: The document does not fit; the message names file, path, and what was expected.
    """
    return cast("T", _object_reader(schema)(document, place))


def read_object(value: object, place: Place) -> Mapping[str, Any]:
    """Require an object with string keys."""
    if not isinstance(value, Mapping):
        raise place.error(f"must be an object, found {describe(value)}")
    for key in cast("Mapping[object, Any]", value):
        if not isinstance(key, str):
            raise place.error(f"has the key {key!r}; keys must be strings")
    return cast("Mapping[str, Any]", value)


def read_array(value: object, place: Place) -> list[Any]:
    """Require an array."""
    if not isinstance(value, list):
        raise place.error(f"must be an array, found {describe(value)}")
    return cast("list[Any]", value)


def read_str(value: object, place: Place) -> str:
    """Require a string."""
    if not isinstance(value, str):
        raise place.error(f"must be a string, found {describe(value)}")
    return value


def read_bool(value: object, place: Place) -> bool:
    """Require true or false."""
    if not isinstance(value, bool):
        raise place.error(f"must be true or false, found {describe(value)}")
    return value


def read_float(value: object, place: Place) -> float:
    """Require a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise place.error(f"must be a number, found {describe(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if number - number != 0:
        raise place.error(f"must be a finite number, found {value!r}")
    return number


def read_int(value: object, place: Place, *, allowed: range = _INT32) -> int:
    """Require a whole number of 32 bits; 2.0 is one, 2.5 and true are not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise place.error(f"must be a whole number, found {describe(value)}")
    if isinstance(value, float) and not value.is_integer():
        raise place.error(f"must be a whole number, found {value!r}")
    if int(value) not in allowed:
        raise place.error(f"is {value!r}, outside [{allowed.start}, {allowed.stop - 1}]")
    return int(value)


def read_int64(value: object, place: Place) -> int:
    """Require a whole number of 64 bits."""
    return read_int(value, place, allowed=_INT64)


def describe(value: object) -> str:
    """A value as messages show it: its kind, and itself where it is short."""
    match value:
        case str() if len(value) < 40:
            return f"the string {value!r}"
        case int() | float() if not isinstance(value, bool):
            return f"the number {value!r}"
        case _:
            return json_kind(value)


_SCALARS: Mapping[Any, Reader] = {
    str: read_str,
    bool: read_bool,
    float: read_float,
    int: read_int,
    Any: lambda value, _: value,
}


@functools.cache
def _object_reader(schema: type[Any]) -> Reader:
    hints = typing.get_type_hints(schema, include_extras=True)
    readers = {field.name: _reader(hints[field.name]) for field in fields(schema)}
    required = [f.name for f in fields(schema) if f.default is MISSING and f.default_factory is MISSING]

    def read(value: Any, place: Place) -> Any:
        document = read_object(value, place)
        values: dict[str, Any] = {}
        for key, item in document.items():
            if key not in readers:
                raise place.key(key).error(f"is unknown{did_you_mean(key, readers)}")
            values[key] = readers[key](item, place.key(key))
        for name in required:
            if name not in values:
                raise place.key(name).error("is missing")
        return schema(**values)

    return read


@functools.cache
def _reader(hint: Any) -> Reader:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        if isinstance(arguments[1], ReadBy):
            return _checked(arguments[1].reader, arguments[2:])
        return _checked(_reader(arguments[0]), arguments[1:])
    if origin in (typing.Union, types.UnionType):
        (inner,) = (a for a in arguments if a is not type(None))
        return _reader(inner)
    if origin is typing.Literal:
        return _choice(arguments)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if origin is Mapping:
        return _map(_reader(arguments[1]))
    assert is_dataclass(hint), f"no reader for {hint!r}"
    # late, so that a schema may contain itself
    return lambda value, place: _object_reader(cast("type[Any]", hint))(value, place)


def _checked(base: Reader, checks: tuple[Reader, ...]) -> Reader:
    def read(value: Any, place: Place) -> Any:
        result = base(value, place)
        for check in checks:
            result = check(result, place)
        return result

    return read


def _choice(choices: tuple[str, ...]) -> Reader:
    def read(value: Any, place: Place) -> str:
        text = read_str(value, place)
        if text not in choices:
            raise place.error(f"is {text!r}; known are {', '.join(choices)}{did_you_mean(text, choices)}")
        return text

    return read


def _array(inner: Reader) -> Reader:
    return lambda value, place: tuple(
        inner(item, place.item(i)) for i, item in enumerate(read_array(value, place))
    )


def _map(inner: Reader) -> Reader:
    return lambda value, place: {
        key: inner(item, place.key(key)) for key, item in read_object(value, place).items()
    }
