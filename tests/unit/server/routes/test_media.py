"""Images and sounds in requests of all kinds: judged where they stand, and refused by a model that has no sense for them."""

import base64
import contextlib
import dataclasses
import functools

import httpx
import pytest

from onnxgen.server.app import create_app
from onnxgen.server.errors import ApiError
from onnxgen.server.formats.response_items import check_media, read_items
from onnxgen.server.generation.messages import normalized_messages
from onnxgen.server.media import MediaCheck, MediaPolicy
from server_doubles import fake_services, running

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
WAV = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt " + bytes(20)).decode()
URI = f"data:image/png;base64,{PNG}"
TEXT = {"type": "text", "text": "What is this?"}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


def chat(part):
    return CHAT, {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": [TEXT, part]}]}


def image(url):
    return {"type": "image_url", "image_url": {"url": url}}


def sound(data, form="wav"):
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


def response(part):
    text = {"type": "input_text", "text": "What?"}
    return RESPONSES, {
        "instructions": "x",
        "input": [{"role": "user", "content": "Hi"}, {"role": "user", "content": [text, part]}],
    }


def message(source):
    block = {"type": "image", "source": source}
    return MESSAGES, {
        "max_tokens": 5,
        "system": "x",
        "messages": [{"role": "user", "content": [TEXT, block]}],
    }


def packed(data, kind="image/png"):
    return {"type": "base64", "media_type": kind, "data": data}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The field that is named and the text, of a request to a server with these settings."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def server(**settings):
            app = create_app(fake_services(tmp_path_factory.mktemp("media"), settings=settings))
            return stack.enter_context(httpx.Client(base_url=stack.enter_context(running(app)), timeout=60))

        def ask(path, asked, **settings):
            answer = server(**settings).post(path, json=asked)
            assert answer.status_code == 400, answer.text
            error = answer.json()["error"]
            return error.get("param"), error["message"]

        yield ask


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        (chat(image(URI)), "messages[1].content[1]"),
        (chat({"type": "input_image", "image_url": URI}), "messages[1].content[1]"),
        (chat(sound(WAV)), "messages[1].content[1]"),
        (("/apply-template", chat(image(URI))[1]), "messages[1].content[1]"),
        (("/tokenize", chat(image(URI))[1]), "messages[1].content[1]"),
        (("/v1/sessions", chat(image(URI))[1]), "messages[1].content[1]"),
        (response({"type": "input_image", "image_url": URI}), "input[1].content[1]"),
        (response(sound(WAV)), "input[1].content[1]"),
        ((RESPONSES + "/input_tokens", response(sound(WAV))[1]), "input[1].content[1]"),
        (message(packed(PNG)), "messages[0].content[1]"),
    ],
)
def test_a_model_of_text_says_that_it_has_no_such_sense(refused, asked, place):
    param, said = refused(*asked)
    assert param == (None if asked[0] == MESSAGES else place)
    assert said.startswith(place + " ")
    assert "this model has no " + ("hearing" if WAV in str(asked) else "vision") in said


@pytest.mark.parametrize(
    ("asked", "place", "why"),
    [
        (chat(image("https://example.org/a.png")), "messages[1].content[1].image_url.url", "--allow-media-urls"),
        (chat(image("file:///etc/passwd")), "messages[1].content[1].image_url.url", "data URI"),
        (chat(image(URI[:-1])), "messages[1].content[1].image_url.url", "cut off"),
        (chat(image(f"data:image/png;base64,{WAV}")), "messages[1].content[1].image_url.url", "audio/wav"),
        (chat(image(None)), "messages[1].content[1].image_url.url", "expected a data URI"),
        (chat({"type": "image_url"}), "messages[1].content[1].image_url", "expected a data URI"),
        (chat(sound("???")), "messages[1].content[1].input_audio.data", "base64"),
        (chat(sound(WAV, "mp3")), "messages[1].content[1].input_audio.data", "audio/wav and not"),
        (chat({"type": "input_audio"}), "messages[1].content[1].input_audio", "needs data"),
        (response({"type": "input_image", "image_url": "ftp://x"}), "input[1].content[1].image_url", "data URI"),
        (response(sound("???")), "input[1].content[1].input_audio.data", "base64"),
        (message(packed("???")), "messages[0].content[1].source.data", "base64"),
        (message(packed(PNG, "image/gif")), "messages[0].content[1].source.data", "image/png and not"),
        (message({"type": "url", "url": "https://x.org"}), "messages[0].content[1].source.url", "--allow-media"),
    ],
)  # fmt: skip
def test_what_is_not_allowed_or_damaged_is_named_before_that(refused, asked, place, why):
    param, said = refused(*asked)
    assert param == (None if asked[0] == MESSAGES else place)
    assert said.startswith(place + " ")
    assert why in said


@pytest.mark.parametrize(
    "asked",
    [
        chat(image("https://example.org/a.png")),
        response({"type": "input_image", "image_url": "https://example.org/a.png"}),
        message({"type": "url", "url": "https://example.org/a.png"}),
    ],
)
def test_addresses_that_are_allowed_are_not_fetched_for_a_model_that_does_not_see(refused, asked):
    assert "no vision" in refused(*asked, allow_media_urls=True)[1]


def test_what_is_too_large_is_refused_before_it_is_decoded():
    check = MediaCheck(MediaPolicy(max_bytes=10), senses=())
    with pytest.raises(ApiError, match="10 are allowed"):
        check.source("data:image/png;base64," + "!" * 100, kind="image", place="p", part="p")
    with pytest.raises(ApiError, match="10 are allowed"):
        check.base64("!" * 100, kind="audio", declared="audio/wav", place="p", part="p")


def test_a_model_that_sees_gets_what_was_judged():
    media = MediaCheck(MediaPolicy(), senses=("image",))
    asked = chat(image(URI))[1]["messages"]
    assert normalized_messages(asked, max_messages=9, media=media)[1]["content"] == [TEXT, image(URI)]
    with pytest.raises(ApiError, match="no hearing"):
        normalized_messages(chat(sound(WAV))[1]["messages"], max_messages=9, media=media)
    items = read_items(
        response({"type": "input_image", "image_url": URI})[1]["input"], new_id=str, stored={}.get
    )
    check_media(items, media)
    with pytest.raises(ApiError, match=r"input\[1\].content\[1\] is of type image"):
        check_media(items, dataclasses.replace(media, senses=()))


def test_a_result_of_a_tool_may_not_be_an_image_either(refused):
    _, asked = response({"type": "input_text", "text": "x"})
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = [{"type": "input_image", "image_url": URI}]
    asked["input"] += [call, {"type": "function_call_output", "call_id": "c", "output": output}]
    assert refused(RESPONSES, asked)[0] == "input[3].output[0]"


def test_no_items_at_all_are_named_as_the_client_names_them(refused):
    param, said = refused(RESPONSES, {"input": []})
    assert (param, said.split()[0]) == ("input", "input")
