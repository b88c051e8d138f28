"""Takes the picture of the chat page that the documents show: asks a running server two questions in a browser.

onnxgen serve smollm2 --default max_new_tokens=160 &
python scripts/chat_page_picture.py http://127.0.0.1:8080 docs/images/chat-page.png
"""

import argparse
import base64
import io
import sys
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import webdriver

QUESTIONS = (
    "What is the capital of Norway?",
    "Write a short Python function that adds two numbers, and explain it.",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("server")
    parser.add_argument("picture", type=Path)
    asked = parser.parse_args()
    with webdriver.driver() as driver, webdriver.browser(driver, size=(1100, 900)) as window:
        window.open(asked.server.rstrip("/") + "/")
        window.until(lambda: window.text("#model").strip(), "the list of models")
        for number, question in enumerate(QUESTIONS, 1):
            window.one("#prompt").type(question)
            window.press("Enter")
            window.until(
                lambda n=number: window.text(".message.assistant .foot").count("tokens/s") == n,
                "the answer",
                timeout_s=120,
            )
        shown = Image.open(io.BytesIO(base64.b64decode(window.picture())))
    asked.picture.parent.mkdir(parents=True, exist_ok=True)
    shown.convert("RGB").quantize(64).save(asked.picture, optimize=True)
    print(f"{asked.picture}: {shown.width} x {shown.height}, {asked.picture.stat().st_size} bytes")


if __name__ == "__main__":
    main()
