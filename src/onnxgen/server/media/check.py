"""`MediaCheck`: images and sounds of a request, judged where they stand before a model gets any of it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from onnxgen.server.errors import ApiError
from onnxgen.server.media.content import checked_type
from onnxgen.server.media.data_uri import data_of_base64, data_of_uri
from onnxgen.server.media.policy import Kind, MediaPolicy
from onnxgen.server.media.refusal import refusal

_SENSE = {"image": "vision", "audio": "hearing"}


@dataclass(frozen=True, slots=True)
class MediaCheck:
    """Refuses what is not allowed or damaged, and then what the model has no sense for. Fetches and unpacks nothing.

    What is large takes a while: see `onnxgen.server.generation.large_requests`. What a model with the sense is given,
    `onnxgen.server.media.reader.MediaReader` reads, by the same rules.

    Attributes:
        policy: What is allowed.
        senses: What the model takes besides text.
    """

    policy: MediaPolicy
    senses: Collection[str]

    def source(self, source: str, *, kind: Kind, place: str, part: str) -> None:
        """Judge a data URI or an address.

        Args:
            source: As in ``image_url.url``.
            kind: What it should be.
            place: The field of the request that it is in.
            part: The field of the request that it is a part of.

        Raises:
            ApiError: It is not allowed, damaged, too large or of another type; or the model has no such sense.
        """
        if allowed_scheme(source, self.policy, place=place) == "data":
            declared, data = data_of_uri(source, max_bytes=self.policy.max_bytes, place=place)
            checked_type(data, kind=kind, declared=declared, place=place)
        self._require(kind, part)

    def base64(self, text: str, *, kind: Kind, declared: str, place: str, part: str) -> None:
        """Judge a text in base64, as ``input_audio`` has it.

        Args:
            text: The text.
            kind: What it should be.
            declared: Its type, such as ``audio/wav``.
            place: The field of the request that it is in.
            part: The field of the request that it is a part of.

        Raises:
            ApiError: As `source`.
        """
        data = data_of_base64(text, max_bytes=self.policy.max_bytes, place=place)
        checked_type(data, kind=kind, declared=declared, place=place)
        self._require(kind, part)

    def _require(self, kind: Kind, part: str) -> None:
        if kind not in self.senses:
            raise ApiError(
                400,
                f"{part} is of type {kind}, and this model has no {_SENSE[kind]}; send text",
                code="unsupported_media",
                param=part,
            )


def allowed_scheme(source: str, policy: MediaPolicy, *, place: str) -> str:
    """How what a message names is to be had: ``data``, ``http`` or ``https``.

    Args:
        source: A data URI or an address.
        policy: What is allowed.
        place: The field of the request that it is in.

    Raises:
        ApiError: It is neither, or addresses are not allowed.
    """
    scheme = source[:8].partition(":")[0].lower()
    if scheme == "data":
        return scheme
    if scheme not in ("http", "https"):
        or_address = ", or an http or https address" if policy.allow_urls else ""
        raise refusal(place, f"it must be a data URI (data:TYPE;base64,DATA){or_address}")
    if not policy.allow_urls:
        raise refusal(
            place, "this server fetches nothing; send a data URI, or let its operator set --allow-media-urls"
        )
    return scheme
