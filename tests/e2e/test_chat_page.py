"""The chat page in a real browser, with a server whose answers are written down."""

import contextlib
import random

import pytest

import server_doubles
import webdriver
from onnxgen.server.errors import ApiError
from scripted_chat import ScriptedChat

pytestmark = pytest.mark.skipif(
    webdriver.missing_browser() is not None, reason=webdriver.missing_browser() or "there is a browser"
)


@pytest.fixture(scope="module")
def driver():
    with webdriver.driver() as http:
        yield http


@pytest.fixture(scope="module")
def usual_window(driver):
    with webdriver.browser(driver) as window:
        yield window


@pytest.fixture
def opened(driver, usual_window):
    """Opens the page of a `ScriptedChat`, on a port and so with a storage of its own, in the usual window or another.

    In the end the page must have caused no error of its own.
    """
    with contextlib.ExitStack() as stack:
        windows = []

        def open_page(chat, **options):
            base = stack.enter_context(server_doubles.running(chat.app))
            window = stack.enter_context(webdriver.browser(driver, **options)) if options else usual_window
            window.open(base + "/")
            window.run("localStorage.clear(); sessionStorage.clear()")
            windows.append(window)
            return window

        yield open_page
        for window in windows:
            window.open("about:blank")
            found = [text for text in window.console() if "status of" not in text and "ERR_" not in text]
            assert not found


def ask(window, text):
    window.one("#prompt").type(text)
    window.press("Enter")


def test_an_answer_streams_in_and_says_how_fast_it_came(opened):
    chat = ScriptedChat(["Hello", 0.2, " there,", " **friend**."])
    window = opened(chat)
    window.until_text("#model", "tiny")
    ask(window, "Hi!")
    window.until_text(".message.assistant .foot", "23.4 tokens/s")
    assert window.text(".message.user .body") == "Hi!"
    assert window.text(".message.assistant .body") == "Hello there, friend."
    assert window.text(".message.assistant strong") == "friend"
    foot = window.text(".message.assistant .foot")
    assert "17 tokens" in foot
    assert "prompt 41 (32 cached)" in foot
    asked = chat.asked[0]
    assert asked["messages"] == [{"role": "user", "content": "Hi!"}]
    assert (asked["model"], asked["stream"], asked["stream_options"]) == (
        "tiny",
        True,
        {"include_usage": True},
    )
    assert window.focus() == "prompt"


def test_pieces_are_shown_before_the_answer_ends_and_stop_ends_it(opened):
    chat = ScriptedChat(["Once", " upon", 60, " never"], ["next"])
    window = opened(chat)
    ask(window, "Tell")
    window.until_text(".message.assistant .body", "Once upon")
    assert not window.one("#stop").value("hidden")
    window.one("#stop").click()
    window.until_text(".message.assistant .foot", "stopped")
    window.until(lambda: chat.left_early == 1, "the server to see that nobody listens")
    assert window.text(".message.assistant .body") == "Once upon"
    ask(window, "More")
    window.until_text(".message.assistant .body", "next")
    assert [m["content"] for m in chat.asked[1]["messages"]] == ["Tell", "Once upon", "More"]


def test_escape_stops_too(opened):
    chat = ScriptedChat(["a", 60])
    window = opened(chat)
    ask(window, "Tell")
    window.until_text(".message.assistant .body", "a")
    window.press("Escape")
    window.until_text(".message.assistant .foot", "stopped")
    assert window.text("#announcer").startswith("Stopped")


def test_a_conversation_survives_a_reload_and_another_one_begins(opened):
    chat = ScriptedChat(["one"], ["two"])
    window = opened(chat)
    ask(window, "First question")
    window.until_text(".message.assistant .foot", "17 tokens")
    window.reload()
    window.until_text(".message.assistant .body", "one")
    assert window.text(".message.user .body") == "First question"
    window.button("New chat").click()
    assert window.all(".message") == []
    ask(window, "Second question")
    window.until_text(".message.assistant .body", "two")
    assert [m["content"] for m in chat.asked[1]["messages"]] == ["Second question"]
    assert sorted(window.text("#chats .title").split("\n")) == ["First question", "Second question"]
    window.button("First question").click()
    assert window.text(".message.assistant .body") == "one"
    window.all("#chats li:has([aria-current]) button[aria-label]")[0].click()
    window.accept()
    window.until_text(".message.assistant .body", "two")
    assert window.text("#chats .title") == "Second question"


def test_an_answer_goes_on_while_another_conversation_is_shown(opened):
    chat = ScriptedChat(["slow", 0.7, " end"])
    window = opened(chat)
    ask(window, "Slow one")
    window.until_text(".message.assistant .body", "slow")
    window.button("New chat").click()
    window.button("Slow one").click()
    window.until_text(".message.assistant .body", "slow end")
    window.until_text(".message.assistant .foot", "17 tokens")


def test_a_browser_without_space_says_so_and_answers_all_the_same(opened):
    window = opened(ScriptedChat(["fine"]))
    window.run("""
        for (let size = 4_000_000; size >= 1; size = Math.floor(size / 2)) {
            try {
                for (let n = 0; ; n += 1) localStorage.setItem(`filler.${size}.${n}`, "x".repeat(size));
            } catch {}
        }
    """)
    ask(window, "Hi")
    window.until_text(".message.assistant .body", "fine")
    window.until_text("#notice", "no space left")


def test_a_second_tab_sees_conversations_of_the_first(opened):
    window = opened(ScriptedChat(["one"], ["two"]))
    window.run("window.other = window.open(location.href)")
    window.until(
        lambda: window.run("return Boolean(window.other.document.getElementById('model')?.value)"), "a tab"
    )
    ask(window, "From the first")
    window.until_text(".message.assistant .body", "one")
    listed = "return window.other.document.getElementById('chats').innerText.includes('From the first')"
    window.until(lambda: window.run(listed), "the other tab to list it")
    window.run("window.other.close()")


@pytest.mark.parametrize("case", ["refused", "in the stream", "cut"])
def test_errors_are_shown_and_can_be_tried_again(opened, case):
    busy = ApiError(429, "too many wait already", code="queue_full", headers={"Retry-After": "7"})
    failed = ApiError(500, "the model failed: StepError")
    first = {"refused": busy, "in the stream": ["half", failed], "cut": ["half", EOFError()]}[case]
    said = {
        "refused": "too many wait already (again in 7 s)",
        "in the stream": "the model failed: StepError",
        "cut": "The connection ended before the answer did.",
    }[case]
    chat = ScriptedChat(first, ["fine"])
    window = opened(chat)
    ask(window, "Go")
    window.until_text(".message [role=alert]", said)
    assert window.text(".message.assistant .body") == ("" if case == "refused" else "half")
    window.button("Try again").click()
    window.until_text(".message.assistant .body", "fine")
    assert [m["content"] for m in chat.asked[1]["messages"]] == ["Go"]
    assert window.text(".message [role=alert]").strip() == ""


def test_a_key_is_asked_for_and_used(opened):
    chat = ScriptedChat(["in"], key="secret-key")
    window = opened(chat)
    window.until_text("#key", "this server needs an API key")
    window.one("#key-value").type("secret-key")
    window.button("Use").click()
    window.until_text("#model", "other/model")
    ask(window, "Hi")
    window.until_text(".message.assistant .body", "in")
    assert window.run("return localStorage.getItem('onnxgen.key')") is None
    window.reload()
    window.until_text("#model", "other/model")


def test_editing_and_regenerating_ask_again_from_there(opened):
    chat = ScriptedChat(["one"], ["two"], ["three"])
    window = opened(chat)
    ask(window, "First")
    window.until_text(".message.assistant .foot", "17 tokens")
    window.button("Regenerate").click()
    window.until_text(".message.assistant .body", "two")
    window.until_text(".message.assistant .foot", "17 tokens")
    window.button("Edit").click()
    window.one(".edit textarea").clear()
    window.one(".edit textarea").type("Changed")
    window.one(".edit button[type=submit]").click()
    window.until_text(".message.assistant .body", "three")
    assert [[m["content"] for m in asked["messages"]] for asked in chat.asked] == [
        ["First"],
        ["First"],
        ["Changed"],
    ]
    assert window.text(".message.user .body") == "Changed"


def test_settings_go_with_each_request_and_stay(opened):
    chat = ScriptedChat(["ok"])
    window = opened(chat)
    window.button("Settings").click()
    for field, text in {"system": "Be brief.", "temperature": "0.5", "max-tokens": "12", "seed": "3"}.items():
        window.one(f"#s-{field}").type(text)
    window.one("#s-tools").type("[{")
    window.button("Done").click()
    window.until_text("#s-tools-error", "Tools are no JSON")
    window.one("#s-tools").clear()
    window.button("Done").click()
    window.reload()
    window.until_text("#model", "tiny")
    window.run("document.getElementById('model').value = 'other/model'")
    window.run("document.getElementById('model').dispatchEvent(new Event('change'))")
    ask(window, "Hi")
    window.until_text(".message.assistant .body", "ok")
    asked = chat.asked[0]
    assert asked["messages"][0] == {"role": "system", "content": "Be brief."}
    assert {
        name: asked.get(name) for name in ("model", "temperature", "max_completion_tokens", "seed", "top_p")
    } == {
        "model": "other/model",
        "temperature": 0.5,
        "max_completion_tokens": 12,
        "seed": 3,
        "top_p": None,
    }


def test_reasoning_is_folded_and_calls_of_tools_are_shown_and_answered(opened):
    call = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"city"'}}
    rest = {"index": 0, "function": {"arguments": ': "Oslo"}'}}
    chat = ScriptedChat(
        [
            {"reasoning_content": "I should"},
            {"reasoning_content": " look."},
            {"tool_calls": [call]},
            {"tool_calls": [rest]},
        ],
        ["It snows."],
    )
    window = opened(chat)
    ask(window, "Weather?")
    window.until_text(".call", '"city": "Oslo"')
    assert not window.one("details").value("open")
    window.one("summary").click()
    assert window.text(".assistant .thought") == "I should look."
    window.one(".call textarea").type("snow")
    window.button("Send results").click()
    window.until_text(".message.assistant .body", "It snows.")
    sent = chat.asked[1]["messages"]
    assert sent[1]["tool_calls"][0] == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
    }
    assert sent[2] == {"role": "tool", "tool_call_id": "call_1", "content": "snow"}


HOSTILE = """<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>

# <b>Title</b>

[click](javascript:window.hacked=1) [fine](https://example.org/a) ![pic](https://example.org/p.png)

- one `<i>`
  - two
1. three

| a | b |
|---|---|
| <u>1</u> | **2** |

```html
<script>window.hacked = 1</script>
```
> quote

Under_score_words and 2*3*4 stay."""


def test_answers_are_text_and_never_html(opened):
    window = opened(ScriptedChat([HOSTILE[i : i + 7] for i in range(0, len(HOSTILE), 7)]))
    ask(window, "<img src=x onerror='window.hacked=1'>")
    window.until_text(".message.assistant .foot", "17 tokens")
    assert window.run("return window.hacked ?? null") is None
    count = "return document.querySelectorAll('#messages ' + arguments[0]).length"
    shown = {
        name: window.run(count, name)
        for name in ("img", "script", "b", "i", "u", "h3", "ul ul", "ol", "td", "strong")
    }
    assert shown == {
        "img": 0,
        "script": 0,
        "b": 0,
        "i": 0,
        "u": 0,
        "h3": 1,
        "ul ul": 1,
        "ol": 1,
        "td": 2,
        "strong": 1,
    }
    links = window.run("return [...document.querySelectorAll('#messages a')].map(a => [a.href, a.rel])")
    rel = "noopener noreferrer nofollow"
    assert links == [["https://example.org/a", rel], ["https://example.org/p.png", rel]]
    assert window.text(".message.assistant pre code") == "<script>window.hacked = 1</script>"
    assert "Under_score_words and 2*3*4 stay." in window.text(".message.assistant .body")
    assert window.text(".message.user .body") == "<img src=x onerror='window.hacked=1'>"


def test_growing_text_looks_like_the_whole_text(opened):
    window = opened(ScriptedChat())
    script = """
        const [text] = arguments;
        return import('/page/markdown.js').then(({ render }) => {
            const grown = document.createElement('div');
            for (let end = 1; end <= text.length; end += 1) render(grown, text.slice(0, end));
            const whole = document.createElement('div');
            render(whole, text);
            return [grown.innerHTML, whole.innerHTML];
        });
    """
    grown, whole = window.run(script, HOSTILE)
    assert grown == whole
    assert "<h3>" in whole


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_the_same_however_bytes_arrive(opened, end):
    window = opened(ScriptedChat())
    seed = random.randrange(2**32)
    draw = random.Random(seed)
    expected = ["a", "é 😀", "two\nlines", "", "[DONE]"]
    lines = [": comment", ""]
    for data in expected:
        lines += [*(f"data: {line}" for line in data.split("\n")), "event: x", ""]
    sent = list(f"{end.join(lines)}{end}d".encode())
    cuts = sorted(draw.sample(range(len(sent)), 12))
    pieces = [sent[i:j] for i, j in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    script = """
        const [pieces] = arguments;
        return import('/page/api.js').then(async ({ eventsOf }) => {
            const found = [];
            const body = new ReadableStream({
                start(controller) {
                    for (const piece of pieces) controller.enqueue(new Uint8Array(piece));
                    controller.close();
                },
            });
            for await (const data of eventsOf(body)) found.push(data);
            return found;
        });
    """
    assert window.run(script, pieces) == expected, f"seed {seed}"


def test_no_text_makes_the_page_hang(opened):
    window = opened(ScriptedChat())
    script = """
        const [text] = arguments;
        return import('/page/markdown.js').then(({ render }) => {
            const shown = document.createElement('div');
            render(shown, text);
            return shown.childNodes.length;
        });
    """
    nested = "\n".join(" " * n + "- x" for n in range(200))
    odd = [
        "*" * 9999,
        "`" * 9999,
        "*a " * 5000,
        "[" * 9999,
        "_a " * 5000,
        ">" * 5000,
        "- " * 3000 + "x",
        nested,
        "|a" * 2000 + "\n" + "|-" * 2000,
    ]
    for text in odd:
        assert window.run(script, text) > 0


def test_a_page_that_waits_for_its_model_says_so(opened):
    chat = ScriptedChat()
    chat.health = (503, {"status": "loading"})
    window = opened(chat)
    window.until_text("#notice", "The model is being loaded.")
    chat.health = (200, {"status": "ok"})
    window.until_text("#model", "tiny")
    window.until(lambda: window.text("#notice") == "", "the notice to go")


def test_it_fits_a_narrow_screen_and_works_by_keyboard(opened):
    chat = ScriptedChat(["x" * 300 + " `" + "y" * 200 + "`\n\n```\n" + "z" * 300 + "\n```"])
    window = opened(chat, size=(500, 700))
    window.run("document.body.style.width = '320px'; document.body.style.overflow = 'hidden'")
    ask(window, "Wide?")
    window.until_text(".message.assistant .foot", "17 tokens")
    assert window.run("return document.getElementById('main').scrollWidth") <= 320
    assert not window.all("#side")[0].shown
    window.button("Chats").click()
    assert window.all("#side")[0].shown
    window.press("Escape")
    assert not window.all("#side")[0].shown
    window.press("Shift", "Enter")


def test_everything_that_can_be_used_has_a_name(opened):
    chat = ScriptedChat(["a `b`\n\n```py\nc\n```"])
    window = opened(chat)
    ask(window, "Hi")
    window.until_text(".message.assistant .foot", "17 tokens")
    nameless = """
        return [...document.querySelectorAll('button, select, input, textarea, a, dialog, nav, main')].filter(e => !(
            e.innerText?.trim() || e.textContent.trim() || e.getAttribute('aria-label') ||
            e.labels?.length || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML);
    """
    assert window.run(nameless) == []
    assert window.text("#announcer").startswith("Answer: a")
    ids = window.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_from_its_ground(opened, dark):
    window = opened(
        ScriptedChat(["`code` and [a link](https://example.org)", ApiError(500, "failed")]), dark=dark
    )
    ask(window, "Hi")
    window.until_text(".message [role=alert]", "failed")
    script = """
        const parts = (color) => color.match(/[\\d.]+/g).map(Number);
        const light = (color) => parts(color).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = (e) => {
            for (; e; e = e.parentElement) {
                const color = getComputedStyle(e).backgroundColor;
                if ((parts(color)[3] ?? 1) > 0) return color;
            }
        };
        const found = {};
        for (const e of document.querySelectorAll('body *')) {
            const said = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
            if (!said || !e.checkVisibility() || e.closest('.hidden, .skip, noscript, option')) continue;
            const [a, b] = [light(getComputedStyle(e).color), light(ground(e))].sort((x, y) => y - x);
            const ratio = (a + 0.05) / (b + 0.05);
            found[e.tagName + '.' + e.className + '#' + e.id] = Math.round(ratio * 10) / 10;
        }
        return found;
    """
    found = window.run(script)
    assert len(found) > 10
    assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}
