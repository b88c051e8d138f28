"""Names of onnxruntime-genai's API for what this version does not do: using one says so.

They exist because programs name them where they only handle text, in annotations for instance.
"""

from __future__ import annotations

from typing import NoReturn

from onnxgen.errors import CapabilityError


class Images:
    """Images for a prompt: not supported."""

    @staticmethod
    def open(*paths: str) -> NoReturn:
        """Raises `CapabilityError`."""
        raise CapabilityError(f"cannot open images {list(paths)}: this version answers text prompts only")

    @staticmethod
    def open_bytes(*contents: bytes) -> NoReturn:
        """Raises `CapabilityError`."""
        raise CapabilityError(f"cannot open {len(contents)} images: this version answers text prompts only")


class Audios:
    """Recordings for a prompt: not supported."""

    @staticmethod
    def open(*paths: str) -> NoReturn:
        """Raises `CapabilityError`."""
        raise CapabilityError(f"cannot open recordings {list(paths)}: this version answers text prompts only")

    @staticmethod
    def open_bytes(*contents: bytes) -> NoReturn:
        """Raises `CapabilityError`."""
        raise CapabilityError(
            f"cannot open {len(contents)} recordings: this version answers text prompts only"
        )
