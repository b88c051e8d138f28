"""`log_unknown_fields`: fields of requests that are ignored, each named once."""

from __future__ import annotations

import logging
from collections.abc import Container

from pydantic import BaseModel

_log = logging.getLogger(__name__)
_MOST = 100
"""Names that are remembered; clients can make up as many as they like."""


def log_unknown_fields(fields: BaseModel, logged: set[str], *, known: Container[str] = ()) -> None:
    """Name the fields of a request that mean nothing here.

    Args:
        fields: The request.
        logged: What was named before.
        known: Names that mean something elsewhere, and rightly nothing here.
    """
    for name in fields.model_extra or ():
        if name not in logged and name not in known and len(logged) < _MOST and len(name) <= 80:
            logged.add(name)
            _log.warning("requests have the field %r, which means nothing here and is ignored", name)
