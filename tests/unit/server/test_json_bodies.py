"""Bodies are read as `json.loads` reads them, whatever they are."""

from __future__ import annotations

import json

import pytest
from fastapi import APIRouter, FastAPI, Request
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from onnxgen.server.json_bodies import JsonRoute, parsed_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.booleans())
def test_what_is_written_is_read(value, ascii):
    assert parsed_json(json.dumps(value, ensure_ascii=ascii).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    "text", [b'"\\ud800"', b'{"a": 1, "a": 2}', b"[1e400, -0.0, -0, 1E5]", b"[Infinity]", b"\xef\xbb\xbf[1]"]
)
def test_odd_texts_are_read_alike(text):
    assert repr(parsed_json(text)) == repr(json.loads(text))


@given(st.binary(max_size=20) | st.text('[]{}",:0e-tru\\', max_size=12).map(str.encode))
def test_any_bytes_are_read_alike_or_refused_alike(text):
    try:
        expected = json.loads(text)
    except ValueError as error:
        with pytest.raises(type(error)) as caught:
            parsed_json(text)
        assert str(caught.value) == str(error)
    else:
        assert repr(parsed_json(text)) == repr(expected)


def test_routes_read_bodies_this_way():
    router = APIRouter(route_class=JsonRoute)

    @router.post("/kind")
    async def kind(request: Request, fields: dict[str, str]) -> list[str]:
        return [type(request).__name__, *fields.values()]

    app = FastAPI()
    app.include_router(router)
    with TestClient(app) as client:
        assert client.post("/kind", json={"a": "é"}).json() == ["_JsonRequest", "é"]
        answer = client.post("/kind", content="{", headers={"content-type": "application/json"})
        assert answer.json()["detail"][0]["type"] == "json_invalid"
