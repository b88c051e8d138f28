from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
from fastapi import FastAPI, Response
from starlette.responses import RedirectResponse, StreamingResponse

from onnxgen.server.errors import ApiError
from onnxgen.server.media.addresses import is_public
from onnxgen.server.media.fetch import Fetcher
from onnxgen.server.media.policy import MediaPolicy
from server_doubles import running

PUBLIC = {"good.example": ["93.184.215.14"], "six.example": ["2606:4700::1111"], "bad.example": ["10.0.0.1"]}


def fetch(url, answer: Callable[[httpx.Request], httpx.Response], **policy):
    """Fetch over a transport that answers itself; hosts are as in `PUBLIC`, addresses themselves."""
    asked = []

    async def resolve(host, port):
        if host in PUBLIC:
            return PUBLIC[host]
        if host.replace(".", "").isdigit() or ":" in host:
            return [host.strip("[]")]
        raise OSError

    def handle(request):
        asked.append(request)
        return answer(request)

    async def go():
        fetcher = Fetcher(
            MediaPolicy(allow_urls=True, **policy), transport=httpx.MockTransport(handle), resolve=resolve
        )
        try:
            return await fetcher.fetch(url, place="url")
        finally:
            await fetcher.aclose()

    return asyncio.run(go()), asked


def refused(url, answer=None, **policy):
    def unasked(request):
        pytest.fail(f"{request.url} was asked for")

    with pytest.raises(ApiError) as error:
        fetch(url, answer or unasked, **policy)
    assert error.value.param == "url"
    assert error.value.code == "invalid_media"
    return error.value.message


def png(request):
    return httpx.Response(200, stream=httpx.ByteStream(b"png"), headers={"Content-Type": "image/png; q=1"})


def test_the_checked_address_is_connected_to_for_the_name():
    (media_type, data), (request,) = fetch("https://good.example/a.png?x=1", png)
    assert (media_type, data) == ("image/png", b"png")
    assert request.url == "https://93.184.215.14/a.png?x=1"
    assert request.headers["host"] == "good.example"
    assert request.extensions["sni_hostname"] == "good.example"
    _, (request,) = fetch("http://six.example/a", png)
    assert request.url.host == "2606:4700::1111"


@pytest.mark.parametrize(
    "url",
    [
        *("http://169.254.169.254/latest", "http://[::1]/", "http://127.0.0.1/", "http://bad.example/"),
        *("http://nowhere.example/", "http://good.example:22/", "http://[::1]:1/", "ftp://good.example/"),
        *("http://user:pass@good.example/", "http://", "http:///x", "http://good.example:x/", "http://[::1"),
        "http://\0/",
    ],
)
def test_nothing_is_asked_of_other_places(url):
    refused(url)


@pytest.mark.parametrize(
    "target",
    [
        *(
            "http://169.254.169.254/",
            "file:///etc/passwd",
            "http://bad.example/",
            "//127.0.0.1/",
            "http://[::1",
        ),
        *("http://good.example:22/", "gopher://good.example/", "http://x@good.example/"),
    ],
)
def test_each_redirect_is_checked_again(target):
    asked = []

    def redirect(request):
        asked.append(request)
        return httpx.Response(302, headers={"Location": target})

    refused("http://good.example/", redirect)
    assert len(asked) == 1


def test_redirects_are_followed_so_far_and_no_further():
    def count_down(request):
        left = int(request.url.path[1:])
        return httpx.Response(307, headers={"Location": f"/{left - 1}"}) if left else png(request)

    (_, data), asked = fetch("http://good.example/3", count_down, max_redirects=3)
    assert data == b"png"
    assert len(asked) == 4
    assert "more than 3 times" in refused("http://good.example/4", count_down, max_redirects=3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(404, content=b"secret"), "status 404"),
        (httpx.Response(302), "status 302"),
        (httpx.Response(200, content=b"", headers={"Content-Encoding": "gzip"}), "compressed"),
        (httpx.Response(200, content=bytes(101)), "100 bytes"),
        (httpx.Response(200, stream=httpx.ByteStream(bytes(101))), "100 bytes"),
    ],
)
def test_other_answers_are_refused(answer, said):
    message = refused("http://good.example/", lambda request: answer, max_bytes=100)
    assert said in message
    assert "secret" not in message


def test_failures_of_connections_are_refused():
    def fail(request):
        raise httpx.ConnectError("to 93.184.215.14 refused")

    assert "93.184" not in refused("http://good.example/", fail)


def application() -> FastAPI:
    app = FastAPI()

    @app.get("/small")
    async def small() -> Response:
        return Response(b"small", media_type="image/png")

    @app.get("/endless")
    async def endless() -> Response:
        async def pieces():
            while True:
                yield bytes(65536)
                await asyncio.sleep(0)

        return StreamingResponse(pieces())

    @app.get("/slow")
    async def slow() -> Response:
        async def pieces():
            while True:
                yield b"a"
                await asyncio.sleep(0.05)

        return StreamingResponse(pieces())

    @app.get("/away")
    async def away() -> Response:
        return RedirectResponse("/small")

    @app.get("/inside")
    async def inside() -> Response:
        return RedirectResponse("http://127.0.0.2/small")

    return app


def test_over_sockets(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")  # proxies of the environment are not used

    async def go(url):
        timeout_s = 0.7 if url.endswith("slow") else 30
        policy = MediaPolicy(allow_urls=True, max_bytes=1_000_000, timeout_s=timeout_s, ports=None)
        fetcher = Fetcher(policy, is_public=lambda address: address == "127.0.0.1" or is_public(address))
        try:
            return await fetcher.fetch(url, place="url")
        finally:
            await fetcher.aclose()

    with running(application()) as base:
        assert asyncio.run(go(f"{base}/small")) == ("image/png", b"small")
        assert asyncio.run(go(f"{base}/away")) == ("image/png", b"small")
        for path, said in (("endless", "larger"), ("slow", "within 0.7 s"), ("inside", "public internet")):
            with pytest.raises(ApiError, match=said):
                asyncio.run(go(f"{base}/{path}"))
