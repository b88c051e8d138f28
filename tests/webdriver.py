"""A browser for tests: headless Chromium by the W3C's WebDriver protocol, as much of it as the chat page needs."""

import contextlib
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import httpx

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of a reference to an element
KEYS = {"Enter": "\ue007", "Shift": "\ue008", "Escape": "\ue00c", "Tab": "\ue004", "Null": "\ue000"}


def missing_browser():
    """Why there is no browser here; None if there is one."""
    missing = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"no {' and no '.join(missing)} (Debian: chromium, chromium-driver)" if missing else None


class Browser:
    """One window of a browser."""

    def __init__(self, http, session):
        self._http, self._path = http, f"/session/{session}"

    def _do(self, method, path, body=None):
        answer = self._http.request(method, self._path + path, json=body)
        value = answer.json()["value"]
        if answer.is_error:
            raise AssertionError(f"{path}: {value['error']}: {value['message'].splitlines()[0]}")
        return value

    def open(self, url):
        self._do("POST", "/url", {"url": url})

    def reload(self):
        self._do("POST", "/refresh", {})

    def resize(self, width, height):
        self._do("POST", "/window/rect", {"width": width, "height": height})

    def run(self, script, *args):
        """What a function body in the page returns; a promise is waited for."""
        return self._do("POST", "/execute/sync", {"script": script, "args": list(args)})

    def all(self, selector):
        found = self._do("POST", "/elements", {"using": "css selector", "value": selector})
        return [Element(self, each[ELEMENT]) for each in found]

    def one(self, selector):
        """The only element that is shown and fits; waits until there is one."""
        self.until(
            lambda: len([e for e in self.all(selector) if e.shown]) == 1, f"one {selector} to be shown"
        )
        return next(e for e in self.all(selector) if e.shown)

    def button(self, name):
        """The last button that is shown with this text."""
        path = f"//button[normalize-space()='{name}']"

        def shown():
            found = self._do("POST", "/elements", {"using": "xpath", "value": path})
            return [e for e in (Element(self, each[ELEMENT]) for each in found) if e.shown]

        self.until(shown, f"a button {name!r}")
        return shown()[-1]

    def text(self, selector):
        """The texts that are shown of all that fits, one under the other."""
        return "\n".join(
            self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector)
        )

    def until(self, holds, what, *, timeout_s=30.0):
        """Wait until it holds, also while elements come and go."""
        deadline = time.monotonic() + timeout_s
        while True:
            with contextlib.suppress(AssertionError):
                if holds():
                    return
            assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
            time.sleep(0.02)

    def until_text(self, selector, text, **options):
        self.until(lambda: text in self.text(selector), f"{text!r} in {selector}", **options)

    def press(self, *keys):
        """Press keys, together, wherever the focus is."""
        codes = [KEYS.get(key, key) for key in keys]
        down = [{"type": "keyDown", "value": code} for code in codes]
        up = [{"type": "keyUp", "value": code} for code in reversed(codes)]
        self._do("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": down + up}]})

    def accept(self):
        """Say yes to what the page asks."""
        self._do("POST", "/alert/accept", {})

    def focus(self):
        """The id of the element that has the focus."""
        return self.run("return document.activeElement.id")

    def console(self):
        """Errors that the page caused since the last call."""
        entries = self._do("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def picture(self):
        """What is shown, as a PNG in base64."""
        return self._do("GET", "/screenshot")


class Element:
    """An element of a page."""

    def __init__(self, browser, reference):
        self._browser, self._path = browser, f"/element/{reference}"

    @property
    def shown(self):
        return self._browser._do("GET", f"{self._path}/displayed")

    @property
    def text(self):
        return self._browser._do("GET", f"{self._path}/text")

    def value(self, name):
        return self._browser._do("GET", f"{self._path}/property/{name}")

    def click(self):
        self._browser._do("POST", f"{self._path}/click", {})

    def type(self, text):
        self._browser._do("POST", f"{self._path}/value", {"text": text})

    def clear(self):
        self._browser._do("POST", f"{self._path}/clear", {})


@contextlib.contextmanager
def driver():
    """A client of a driver of browsers, which ends with it and with all its windows."""
    process = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        said = re.compile(r"started successfully on port (\d+)")
        port = next(found[1] for line in process.stdout if (found := said.search(line)))
        drain = threading.Thread(target=process.stdout.read, daemon=True)
        drain.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as http:
            yield http
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@contextlib.contextmanager
def browser(http, *, size=(1100, 800), dark=False, reduced_motion=True):
    """A window with nothing of any other in it."""
    switches = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--hide-scrollbars",
        f"--window-size={size[0]},{size[1]}",
        *(["--force-dark-mode"] if dark else []),
        *(["--force-prefers-reduced-motion"] if reduced_motion else []),
    ]
    quiet = {"credentials_enable_service": False}  # or an offer to keep a password takes the keyboard
    options = {"binary": str(Path(shutil.which("chromium"))), "args": switches, "prefs": quiet}
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL"},
        "timeouts": {"script": 30_000, "pageLoad": 30_000, "implicit": 0},
    }
    answer = http.post("/session", json={"capabilities": {"alwaysMatch": wanted}})
    assert answer.is_success, answer.text[:500]
    session = answer.json()["value"]["sessionId"]
    try:
        yield Browser(http, session)
    finally:
        http.delete(f"/session/{session}")
