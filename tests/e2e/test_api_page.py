"""The page of the API in a real browser: everything comes from the server, and its lines can be used."""

import json
import shlex

import httpx
import pytest

import server_doubles
import webdriver
from onnxgen.server.app import create_app

pytestmark = pytest.mark.skipif(
    webdriver.missing_browser() is not None, reason=webdriver.missing_browser() or "there is a browser"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    settings = {"root_path": "/behind/a/proxy", "enable_admin": True}
    services = server_doubles.fake_services(tmp_path_factory.mktemp("docs"), settings=settings)
    with server_doubles.running(create_app(services)) as url:
        yield url


@pytest.fixture(scope="module")
def window(base):
    with webdriver.driver() as http, webdriver.browser(http) as window:
        yield window


@pytest.fixture
def page(window, base):
    window.open(base + "/docs")
    window.until_text("#groups h2", "chat")
    yield window
    assert not window.console()


def opened(page, path, method="POST"):
    """The element of a request, with all that is inside of it open."""
    page.run(
        """
        const [path, method] = arguments;
        const all = [...document.querySelectorAll("section > details")];
        const one = all.find((d) => d.querySelector("code").textContent === path && d.querySelector(".method").textContent === method);
        document.querySelectorAll("[data-test]").forEach((d) => delete d.dataset.test);
        one.dataset.test = "this";
        one.open = true;
        """,
        path,
        method,
    )
    page.until_text("[data-test] h3", "Try it")


def test_all_requests_are_shown_by_group(page, base):
    document = httpx.get(base + "/openapi.json").json()
    expected = [(m.upper(), path) for path, methods in document["paths"].items() for m in methods]
    shown = page.run(
        "return [...document.querySelectorAll('section > details > summary')].map("
        "s => [s.querySelector('.method').textContent, s.querySelector('code').textContent])"
    )
    assert sorted(map(tuple, shown)) == sorted(expected)
    groups = page.text("#groups h2").split()
    assert groups == page.text("#tags a").split()
    assert {"chat", "embeddings", "admin"} <= set(groups)
    assert page.text("#title").startswith("onnxgen ")


def test_every_request_and_schema_can_be_opened(page):
    page.run("document.querySelectorAll('section > details').forEach((d) => { d.open = true; })")
    for _ in range(3):
        page.until(
            lambda: page.run(
                "return [...document.querySelectorAll('details[open]')].every((d) => d.children.length > 1 || d.querySelector('summary').textContent)"
            ),
            "details to be filled",
        )
        page.run("document.querySelectorAll('details:not([open])').forEach((d) => { d.open = true; })")
    page.until_text("#groups", "mirostat_tau")
    text = page.text("#groups")
    assert "undefined" not in text
    assert "[object Object]" not in text


def test_everything_comes_from_the_server(page, base):
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert f"{base}/page/docs.js" in loaded
    assert all(address.startswith(base + "/") for address in loaded)


def test_fields_say_what_they_are(page):
    opened(page, "/v1/chat/completions")
    text = page.text("[data-test]")
    assert text.index("messages") < text.index("temperature")  # what is required comes first
    for part in (
        "required",
        "0 takes the best token each time.",
        "x-session-id",
        "header",
        "429: ",
        'role: "assistant"',
    ):
        assert part in text


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/sessions"),
        *("/tokenize", "/detokenize", "/apply-template"),
    ],
)
def test_lines_to_try_work_as_they_are(page, base, path):
    opened(page, path)
    words = shlex.split(page.text("[data-test] .try code"))
    assert words[:4] == ["curl", "-X", "POST", base + path]
    assert words[4:6] == ["-H", "Content-Type: application/json"]
    answer = httpx.post(
        words[3], content=words[words.index("-d") + 1], headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    json.loads(answer.text)


def test_requests_are_found_by_words_and_by_the_address(page, base):
    page.one("#find").type("vectors")
    page.until_text("#notice", "1 requests")
    assert page.text("section:not([hidden]) > details:not([hidden]) summary code") == "/v1/embeddings"
    name = page.run("return document.querySelector('section:not([hidden]) > details').id")
    page.open("about:blank")
    page.open(f"{base}/docs#{name}")
    page.until_text("details[open] h3", "Body")


def test_a_line_is_copied_or_selected(page):
    opened(page, "/v1/embeddings")
    page.run("document.querySelector('[data-test] .try button').click()")
    page.until(
        lambda: page.text("#notice") in ("Copied.", "Selected; copy it with the keyboard."), "a notice"
    )
