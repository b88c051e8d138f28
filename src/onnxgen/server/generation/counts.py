"""`check_count`: lists of a request are no longer than its server's operator allows."""

from __future__ import annotations

from collections.abc import Sized

from onnxgen.server.errors import ApiError


def check_count(name: str, given: Sized | None, most: int) -> None:
    """Refuse a list that is too long.

    Args:
        name: The field of the request.
        given: What it says; None: nothing.
        most: Entries that are allowed.

    Raises:
        ApiError: 400, naming the field.
    """
    if given is not None and len(given) > most:
        raise ApiError(400, f"{name} has {len(given)} entries; this server allows at most {most}", param=name)
