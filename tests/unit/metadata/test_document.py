"""Plain documents to dataclasses: every kind of field, and every kind of mistake with its path."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.errors import MetadataError
from onnxgen.metadata.document import (
    AtLeast,
    Between,
    Place,
    ReadBy,
    describe,
    read_document,
    read_int,
    read_int64,
    relative_file,
)


@dataclass(frozen=True, slots=True)
class Leaf:
    name: str
    size: Annotated[int, AtLeast(1)] = 1


@dataclass(frozen=True, slots=True)
class Tree:
    leaf: Leaf
    flag: bool = False
    ratio: Annotated[float, Between(0, 1, open_below=True)] = 0.5
    kind: Literal["left", "right"] = "left"
    leaves: tuple[Leaf, ...] = ()
    numbers: tuple[int, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    maybe: int | None = None
    big: Annotated[int, ReadBy(read_int64)] = 0
    file: Annotated[str, relative_file] = ""
    anything: Any = None


def read(document: object) -> Tree:
    return read_document(Tree, document, Place("f.json"))


def test_a_whole_document():
    assert read(
        {
            "leaf": {"name": "a", "size": 2.0},
            "flag": True,
            "ratio": 1,
            "kind": "right",
            "leaves": [{"name": "b"}, {"name": "c", "size": 3}],
            "numbers": [1, 2],
            "names": {"x": "y"},
            "maybe": 5,
            "big": 2**40,
            "file": "sub/é.bin",
            "anything": [None],
        }
    ) == Tree(
        leaf=Leaf("a", 2),
        flag=True,
        ratio=1.0,
        kind="right",
        leaves=(Leaf("b"), Leaf("c", 3)),
        numbers=(1, 2),
        names={"x": "y"},
        maybe=5,
        big=2**40,
        file="sub/é.bin",
        anything=[None],
    )


def test_what_is_left_out_takes_its_default():
    assert read({"leaf": {"name": "a"}}) == Tree(Leaf("a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leef": {}}, r"f\.json: leef is unknown; did you mean 'leaf'\?"),
        ({"leaf": {"nam": "a"}}, r"f\.json: leaf\.nam is unknown; did you mean 'name'\?"),
        ({"leaf": {}}, r"f\.json: leaf\.name is missing"),
        ({"leaf": []}, r"leaf must be an object, found an array"),
        ({"leaf": None}, r"leaf must be an object, found null"),
        ({"leaf": {"name": 3}}, r"leaf\.name must be a string, found the number 3"),
        ({"leaf": {"name": "a", "size": 0}}, r"leaf\.size is 0; it must be at least 1"),
        ({"leaf": {"name": "a", "size": 2.5}}, r"leaf\.size must be a whole number, found 2\.5"),
        ({"leaf": {"name": "a", "size": True}}, r"leaf\.size must be a whole number, found true"),
        ({"leaf": {"name": "a", "size": "3"}}, r"leaf\.size must be a whole number, found the string '3'"),
        (
            {"leaf": {"name": "a", "size": 2**31}},
            r"leaf\.size is 2147483648, outside \[-2147483648, 2147483647\]",
        ),
        ({"flag": 1}, r"flag must be true or false, found the number 1"),
        ({"ratio": 0}, r"ratio is 0\.0; it must lie in \(0, 1\]"),
        ({"ratio": 1.1}, r"ratio is 1\.1; it must lie in \(0, 1\]"),
        ({"ratio": True}, r"ratio must be a number, found true"),
        ({"ratio": float("nan")}, r"ratio must be a finite number, found nan"),
        ({"ratio": 10**400}, r"ratio must be a finite number"),
        ({"kind": "rihgt"}, r"kind is 'rihgt'; known are left, right; did you mean 'right'\?"),
        ({"leaves": {}}, r"leaves must be an array, found an object"),
        ({"leaves": [{"name": "a"}, {"nam": "b"}]}, r"leaves\[1\]\.nam is unknown"),
        ({"numbers": [1, 2.5]}, r"numbers\[1\] must be a whole number"),
        ({"names": {"x": 1}}, r"names\.x must be a string"),
        ({"maybe": None}, r"maybe must be a whole number, found null"),
        ({"big": 2**63}, r"big is 9223372036854775808, outside"),
        ({"file": "../x"}, r"f\.json: file: file name '\.\./x' leaves the model folder"),
        ({"file": "C:\\x"}, r"file name 'C:\\\\x' is absolute"),
    ],
)
def test_mistakes_are_named_with_their_path(change, message):
    with pytest.raises(MetadataError, match=message):
        read({"leaf": {"name": "a"}, **change})


@pytest.mark.parametrize(("document", "found"), [([], "an array"), ("x", "the string 'x'"), (None, "null")])
def test_the_document_itself_must_be_an_object(document, found):
    with pytest.raises(MetadataError, match=rf"f\.json: the document must be an object, found {found}"):
        read(document)


def test_keys_must_be_strings():
    with pytest.raises(MetadataError, match="has the key 3; keys must be strings"):
        read({"leaf": {"name": "a"}, 3: 4})


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_whole_float_is_the_same_integer(number):
    assert read_int(float(number), Place("f")) == number


@given(st.floats(allow_nan=True, allow_infinity=True).filter(lambda x: not x.is_integer()))
def test_a_broken_float_is_no_integer(number):
    with pytest.raises(MetadataError):
        read_int(number, Place("f"))


def test_long_strings_are_not_shown_whole():
    assert describe("x" * 1000) == "a string"
