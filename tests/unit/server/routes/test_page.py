"""The chat page's files: what is given, and with which rules for the browser."""

import asyncio
import re
import types

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse

import server_doubles
from onnxgen.server.errors import ApiError
from onnxgen.server.page.files import page_files
from onnxgen.server.routes import page
from onnxgen.server.settings import ServerSettings


def get(*paths, headers=None, method="GET", **settings):
    app = FastAPI(docs_url=None)
    app.include_router(page.router)
    app.state.services = types.SimpleNamespace(settings=ServerSettings(**settings))
    app.add_exception_handler(ApiError, lambda _, e: JSONResponse(e.body, e.status))

    async def go():
        async with server_doubles.client(app) as client:
            return [await client.request(method, path, headers=headers) for path in paths]

    return asyncio.run(go())


PAGES = {"index.html", "docs.html"}


def test_everything_that_the_pages_name_is_there():
    names = page_files().keys()
    named = set()
    for page_name in PAGES:
        named |= set(re.findall(r'(?:src|href)="page/([^"]+)"', page_files()[page_name].content.decode()))
    for name in names:
        if name.endswith(".js"):
            named |= set(re.findall(r'from "\./([^"]+)"', page_files()[name].content.decode()))
    assert named == names - PAGES
    answers = get("/", "/docs", *(f"/page/{name}" for name in named))
    assert all(answer.status_code == 200 for answer in answers)


def test_nothing_comes_from_elsewhere_and_nothing_is_inline():
    for name, file in page_files().items():
        text = file.content.decode()
        assert not re.findall(r"""(?:src|href|url|import)\s*[=(]\s*["']?(?:https?:)?//""", text), name
        assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", text), name
        if name in PAGES:
            assert not re.findall(r"<style|<script(?! type=\"module\" src=)|\son\w+=|\sstyle=", text)


def test_browsers_are_told_to_run_nothing_else():
    for answer in get("/", "/docs"):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert [a.headers["content-type"] for a in get("/page/app.js", "/page/style.css", "/page/icon.svg")] == [
        "text/javascript; charset=utf-8",
        "text/css; charset=utf-8",
        "image/svg+xml",
    ]


def test_what_a_browser_has_is_not_sent_again():
    (first,) = get("/page/app.js")
    (again,) = get("/page/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    (head,) = get("/", method="HEAD")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    "name", ["nothing.js", "__init__.py", "..%2ffiles.py", "../files.py", "%2e%2e/files.py", ""]
)
def test_no_other_file_is_given(name):
    (answer,) = get(f"/page/{name}")
    assert answer.status_code == 404


def test_a_server_offers_each_page_or_none():
    paths = ("/", "/page/app.js", "/docs", "/page/docs.js", "/page/palette.css")

    def given(**settings):
        return [answer.status_code == 200 for answer in get(*paths, **settings)]

    assert given() == [True] * 5
    assert given(enable_page=False) == [False, False, True, True, True]
    assert given(enable_docs=False) == [True, True, False, False, True]
    assert given(enable_page=False, enable_docs=False) == [False] * 5
