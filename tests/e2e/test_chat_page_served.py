"""The chat page in a real browser, with a whole server behind it: protection, routes and an engine."""

import asyncio
import contextlib

import pytest

import server_doubles
import webdriver
from onnxgen.server.app import create_app
from onnxgen.server.protection import protect

pytestmark = pytest.mark.skipif(
    webdriver.missing_browser() is not None, reason=webdriver.missing_browser() or "there is a browser"
)


@pytest.fixture
def served(tmp_path):
    """Opens the page of a server with these settings, whose model never ends an answer by itself."""
    with contextlib.ExitStack() as stack:

        def open_page(*, max_new_tokens, **settings):
            defaults = {"ignore_eos": True, "max_new_tokens": max_new_tokens}
            services = server_doubles.fake_services(
                tmp_path, context=30_000, entry={"defaults": defaults}, settings=settings
            )
            app = protect(create_app(services), services)
            window = stack.enter_context(webdriver.browser(stack.enter_context(webdriver.driver())))
            window.open(stack.enter_context(server_doubles.running(app)) + "/")
            return window, services

        yield open_page


def running(services):
    """Sequences that the engine computes now."""
    return asyncio.run(services.models.loaded()[0].text.stats()).running


def ask(window, text):
    window.one("#prompt").type(text)
    window.press("Enter")


def test_a_conversation_from_the_first_question_to_a_reload(served):
    window, _ = served(max_new_tokens=12)
    window.until_text("#model", "tiny")
    ask(window, "Hi!")
    window.until_text(".message.assistant .foot", "12 tokens")
    answer = window.text(".message.assistant .body")
    assert answer.strip()
    ask(window, "And then?")
    window.until_text(".message:last-child .foot", "12 tokens")
    assert "cached" in window.text(".message:last-child .foot")
    window.reload()
    assert window.text(".message.assistant .body").startswith(answer)
    assert window.console() == []


def test_stop_frees_the_engine(served):
    window, services = served(max_new_tokens=29_000)
    window.until_text("#model", "tiny")
    ask(window, "Go on for ever")
    window.until(lambda: len(window.text(".message.assistant .body")) > 20, "an answer to stream in")
    window.one("#stop").click()
    window.until_text(".message.assistant .foot", "stopped")
    window.until(lambda: running(services) == 0, "the engine to be free")
    ask(window, "Once more")
    window.until(lambda: len(window.text(".message:last-child .body")) > 20, "the next answer")
    window.press("Escape")
    window.until_text(".message:last-child .foot", "stopped")


def test_what_the_server_refuses_is_shown(served):
    window, _ = served(max_new_tokens=5)
    window.until_text("#model", "tiny")
    window.run("document.getElementById('prompt').value = 'long '.repeat(20000)")
    window.one("#prompt").click()
    window.press("Enter")
    window.until_text(".message [role=alert]", "context")


def test_a_server_with_keys_gives_the_page_and_asks_for_one(served):
    window, _ = served(max_new_tokens=5, api_key=("me=a-long-secret-key",))
    window.until(lambda: window.all("#key")[0].value("open"), "the page to ask for a key")
    window.one("#key-value").type("a-long-secret-key")
    window.button("Use").click()
    window.until_text("#model", "tiny")
    ask(window, "Hi!")
    window.until_text(".message.assistant .foot", "5 tokens")
