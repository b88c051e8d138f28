"""`read_template_file`: a chat template that a user gives instead of a model's own."""

from __future__ import annotations

import os
from pathlib import Path

from onnxgen.errors import ConfigError


def read_template_file(path: str | os.PathLike[str]) -> str:
    """The text of a chat template.

    Raises:
        ConfigError: The file cannot be read.
    """
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        reason = getattr(cause, "strerror", None) or cause
        raise ConfigError(f"the chat template {os.fspath(path)} cannot be read: {reason}") from cause
