"""`MediaReader`: images and sounds of messages as bytes, wherever they are and within a policy.

Models that see or hear get what `MediaCheck` let pass from here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from onnxgen.server.media.check import allowed_scheme
from onnxgen.server.media.content import check_pixels, checked_type
from onnxgen.server.media.data_uri import data_of_base64, data_of_uri
from onnxgen.server.media.fetch import Fetcher
from onnxgen.server.media.policy import Kind, MediaPolicy

_INLINE_CHARS = 64 * 1024  # more is decoded in a thread


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a sound, still packed.

    Attributes:
        media_type: Such as ``image/png``; what the bytes are.
        data: The bytes.
    """

    media_type: str
    data: bytes


class MediaReader:
    """Reads images and sounds that messages name.

    Args:
        policy: What is allowed.
        fetcher: Gets what is on the web; None: one of its own.
    """

    def __init__(self, policy: MediaPolicy, *, fetcher: Fetcher | None = None) -> None:
        self._policy = policy
        self._fetcher = fetcher or Fetcher(policy)

    async def read(self, source: str, *, kind: Kind, place: str) -> Media:
        """What a data URI has, or an http or https address names. Files are never read.

        Args:
            source: As in ``image_url.url``.
            kind: What it should be.
            place: The field of the request that it is in.

        Raises:
            ApiError: It is not allowed, damaged, too large, too slow or something else.
        """
        if allowed_scheme(source, self._policy, place=place) == "data":
            declared, data = await self._decoded(source, place)
        else:
            declared, data = await self._fetcher.fetch(source, place=place)
        return await self._checked(data, kind=kind, declared=declared, place=place)

    async def read_base64(self, text: str, *, kind: Kind, declared: str, place: str) -> Media:
        """What a text in base64 has, as ``input_audio`` has it.

        Args:
            text: The text.
            kind: What it should be.
            declared: Its type, such as ``audio/wav``.
            place: The field of the request that it is in.

        Raises:
            ApiError: It is damaged, too large or something else.
        """
        most = self._policy.max_bytes
        if len(text) > _INLINE_CHARS:
            data = await asyncio.to_thread(data_of_base64, text, max_bytes=most, place=place)
        else:
            data = data_of_base64(text, max_bytes=most, place=place)
        return await self._checked(data, kind=kind, declared=declared, place=place)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()

    async def _decoded(self, uri: str, place: str) -> tuple[str, bytes]:
        most = self._policy.max_bytes
        if len(uri) > _INLINE_CHARS:
            return await asyncio.to_thread(data_of_uri, uri, max_bytes=most, place=place)
        return data_of_uri(uri, max_bytes=most, place=place)

    async def _checked(self, data: bytes, *, kind: Kind, declared: str, place: str) -> Media:
        media_type = checked_type(data, kind=kind, declared=declared, place=place)
        if kind == "image":
            await asyncio.to_thread(check_pixels, data, max_pixels=self._policy.max_pixels, place=place)
        return Media(media_type, data)
