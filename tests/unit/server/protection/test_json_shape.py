from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.server.protection.json_shape import JsonShape

VALUES = st.recursive(
    st.none() | st.integers() | st.text('"\\[]{}a\n', max_size=8) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('"\\[]{}a', max_size=5), inner, max_size=4)
    ),
    max_leaves=30,
)


def shape_of(*, max_depth=100, max_containers=10**6, max_values=10**6):
    return JsonShape(max_depth=max_depth, max_containers=max_containers, max_values=max_values)


def depth_of(value):
    match value:
        case list():
            return 1 + max(map(depth_of, value), default=0)
        case dict():
            return 1 + max(map(depth_of, value.values()), default=0)
        case _:
            return 0


def is_too_deep(text, limit, cuts=()):
    shape, start = shape_of(max_depth=limit), 0
    for cut in [*sorted(cuts), len(text)]:
        if shape.fault(text[start:cut]):
            return True
        start = cut
    return False


@given(VALUES, st.booleans(), st.data())
def test_depth_is_that_of_the_parsed_value_however_the_text_is_cut(value, ascii, data):
    text = json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    depth = depth_of(value)
    assert not is_too_deep(text, depth, cuts)
    if depth:
        assert is_too_deep(text, depth - 1, cuts)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_any_bytes_are_taken(text, cuts):
    is_too_deep(text, 3, [min(cut, len(text)) for cut in cuts])


@pytest.mark.parametrize("text", [b"[" * 101, b'{"a":' * 101, b'[{"a":[' * 34, b"]" * 50 + b"[" * 101])
def test_what_never_ends_is_too_deep(text):
    assert is_too_deep(text, 100)
    assert is_too_deep(text, 100, range(0, len(text), 7))


def test_brackets_in_strings_do_not_count():
    assert not is_too_deep(b'{"code": "' + b"[" * 100_000 + b'"}', 1)
    assert not is_too_deep(b'["\\\\", "\\"[[[", "[[\\\\"]', 1)


@given(VALUES)
def test_arrays_and_objects_are_counted(value):
    def count(value):
        inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
        return isinstance(value, list | dict) + sum(map(count, inner))

    text, found = json.dumps(value).encode(), count(value)
    assert shape_of(max_containers=found).fault(text) is None
    if found:
        fault = shape_of(max_containers=found - 1).fault(text)
        assert fault == f"has more than {found - 1} arrays and objects"


@given(st.lists(st.integers() | st.text('",[]'), min_size=2), st.data())
def test_values_of_a_list_are_counted_however_the_text_is_cut(values, data):
    text = json.dumps({"ids": values}).encode()
    cut = data.draw(st.integers(0, len(text)))
    for most, fault in ((len(values), None), (len(values) - 1, f"has more than {len(values) - 1} values")):
        shape = shape_of(max_values=most)
        assert (shape.fault(text[:cut]) or shape.fault(text[cut:])) == fault
