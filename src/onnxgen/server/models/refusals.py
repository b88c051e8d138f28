"""What clients are told of a model that cannot be loaded; the operator's log has more."""

from __future__ import annotations

import errno

from onnxgen.errors import (
    BackendError,
    BuildError,
    CapabilityError,
    ConfigError,
    DownloadError,
    ModelFileError,
    ModelNotFoundError,
    OptionError,
)
from onnxgen.server.errors import ApiError, unavailable
from onnxgen.server.models.entry import ModelEntry

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (ModelNotFoundError, "its files are not there"),
    (ModelFileError, "a file of it is missing or broken"),
    (DownloadError, "it could not be fetched"),
    (BuildError, "it could not be built"),
    (ConfigError, "its configuration is wrong"),
    (OptionError, "its configuration is wrong"),
    (CapabilityError, "it needs what this server cannot do"),
    (BackendError, "the backend could not load it"),
    (MemoryError, "there is not enough memory for it"),
)


def load_refusal(entry: ModelEntry, failure: Exception) -> ApiError:
    """What clients are told; it names no files.

    Args:
        entry: The model.
        failure: What loading it raised.
    """
    if isinstance(failure, ApiError):
        return failure
    return unavailable(
        f"the model {entry.id!r} cannot be loaded: {_reason(failure)}; the server's log has more",
        code="model_unavailable",
        retry_after_s=30,
    )


def was_unloaded(id: str) -> ApiError:
    """What clients are told whose model was unloaded while they used it or waited for it."""
    return unavailable(f"the model {id!r} was unloaded; ask again", code="model_unloaded")


def _reason(failure: Exception) -> str:
    if isinstance(failure, OSError) and failure.errno == errno.ENOSPC:
        return "the disk is full"
    return next((text for kind, text in _REASONS if isinstance(failure, kind)), "it failed unexpectedly")
