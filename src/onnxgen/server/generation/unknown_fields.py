"""`log_unknown_fields`: fields of requests that are ignored, each named once."""

from __future__ import annotations

import logging

from onnxgen.server.schemas.generation import GenerationFields

_log = logging.getLogger(__name__)
_MOST = 1000
"""Names that are remembered; clients can make up as many as they like."""


def log_unknown_fields(fields: GenerationFields, logged: set[str]) -> None:
    """Name the fields of a request that mean nothing here.

    Args:
        fields: The request.
        logged: What was named before.
    """
    for name in fields.model_extra or ():
        if name not in logged and len(logged) < _MOST and len(name) <= 80:
            logged.add(name)
            _log.warning("requests have the field %r, which means nothing here and is ignored", name)
