"""Ids for calls of tools that a model gave none."""

from __future__ import annotations

import re
import secrets
import string

from onnxgen.preprocess.template_style import SHORT_ID_LENGTH

SHORT_ID = re.compile(rf"[A-Za-z0-9]{{{SHORT_ID_LENGTH}}}")
"""What an id is where a template counts its characters."""

_LETTERS = string.ascii_letters + string.digits
_ID_CHARS = 24


def random_id() -> str:
    """An id that no other call has."""
    return "call_" + "".join(secrets.choice(_LETTERS) for _ in range(_ID_CHARS))


def short_id() -> str:
    """Likewise of nine letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(SHORT_ID_LENGTH))
