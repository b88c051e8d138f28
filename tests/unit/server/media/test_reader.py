from __future__ import annotations

import asyncio
import base64
import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from onnxgen.server.errors import ApiError
from onnxgen.server.media import MediaPolicy
from onnxgen.server.media.content import type_of
from onnxgen.server.media.policy import TYPES
from onnxgen.server.media.reader import MediaReader

WAV = b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0" + bytes(20)


def image(form="PNG", size=(3, 2)):
    buffer = io.BytesIO()
    Image.new("RGB", size).save(buffer, form)
    return buffer.getvalue()


def claiming(width, height):
    """A PNG of one pixel that says it has more."""
    data = image(size=(1, 1))
    header = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:]


def uri(data, media_type="image/png"):
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def read(source, *, kind="image", **policy):
    async def go():
        reader = MediaReader(MediaPolicy(**policy))
        try:
            return await reader.read(source, kind=kind, place="messages[0].content[1].image_url.url")
        finally:
            await reader.aclose()

    return asyncio.run(go())


def refused(source, **options):
    with pytest.raises(ApiError) as error:
        read(source, **options)
    assert error.value.status == 400
    assert error.value.param == "messages[0].content[1].image_url.url"
    assert len(error.value.message) < 400
    return error.value.message


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_images_are_read_as_what_they_are(form):
    data = image(form)
    media = read(uri(data, f"image/{form.lower()}"))
    assert (media.media_type, media.data) == (f"image/{form.lower()}", data)


def test_a_large_image_is_read_too():
    data = image(size=(300, 300)) + bytes(200_000)
    assert read(uri(data)).data == data


@pytest.mark.parametrize("declared", ["", "application/octet-stream", "IMAGE/PNG", "image/png;charset=x"])
def test_what_is_declared_may_be_vague(declared):
    assert read(uri(image(), declared)).media_type == "image/png"


def test_a_wrong_type_is_refused():
    assert "image/png and not 'image/jpeg'" in refused(uri(image(), "image/jpeg"))
    assert "no known type" in refused(uri(b"<svg xmlns='x'/>", "image/svg+xml"))
    assert "no known type" in refused(uri(b"", "image/png"))
    assert "audio/wav" in refused(uri(WAV, "image/png"))
    assert "image/png" in refused(uri(image(), "audio/wav"), kind="audio")
    assert read(uri(WAV, "audio/x-wav"), kind="audio").media_type == "audio/wav"


@pytest.mark.parametrize("cut", [1, 2, 3, 5])
def test_cut_base64_is_refused(cut):
    text = uri(image() + b"ab")[:-cut]
    if (len(text) - len("data:image/png;base64,")) % 4:
        assert "cut off" in refused(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "data:image/png;base64,",
            "data:image/png,abc",
            "data:",
            "data:image/png;base64",
            "data:;base64,_-_-",
        ),
        *("data:image/png;base64,iVBO Rw0K", "data:image/png;base64,iVBORw0K=", "data:image/png;base64,é"),
    ],
)
def test_what_is_no_base64_is_refused(text):
    refused(text)


def test_size_is_looked_at_before_decoding():
    assert "100 are allowed" in refused(uri(bytes(101)), max_bytes=100)
    assert "100 are allowed" in refused("data:image/png;base64," + "!" * 1000, max_bytes=100)
    data = image() + bytes(50)
    assert read(uri(data), max_bytes=len(data)).data == data


def test_an_image_that_unpacks_to_too_much_is_refused():
    for size in ((50_000, 50_000), (10_000, 10_000), (2**31 - 1, 2**31 - 1), (1001, 1000)):
        assert "pixels" in refused(uri(claiming(*size)), max_pixels=1_000_000)
    assert read(uri(claiming(1000, 1000)), max_pixels=1_000_000)


def test_a_damaged_header_is_refused():
    assert "damaged" in refused(uri(image()[:20]))


@pytest.mark.parametrize(
    "source", ["file:///etc/passwd", "/etc/passwd", "ftp://x/y", "", "javascript:1", "C:\\x"]
)
def test_nothing_else_is_read(source):
    assert "data URI" in refused(source)
    assert "data URI" in refused(source, allow_urls=True)


@pytest.mark.parametrize("source", ["http://1.1.1.1/a.png", "HTTPS://example.org/a.png"])
def test_addresses_are_not_fetched_unless_allowed(source):
    assert "--allow-media-urls" in refused(source)


def test_bare_base64_is_read_as_sound():
    async def go(text):
        reader = MediaReader(MediaPolicy(max_bytes=100))
        return await reader.read_base64(text, kind="audio", declared="audio/wav", place="p")

    assert asyncio.run(go(base64.b64encode(WAV).decode())).data == WAV
    for text in (
        "???",
        base64.b64encode(bytes(101)).decode(),
        base64.b64encode(image()).decode(),
        "A" * 100_001,
    ):
        with pytest.raises(ApiError):
            asyncio.run(go(text))


@given(st.binary(max_size=20))
def test_any_bytes_have_a_known_type_or_none(data):
    assert type_of(data) in {None, *TYPES["image"], *TYPES["audio"]}
