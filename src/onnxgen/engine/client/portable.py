"""Errors that can be told to another process."""

from __future__ import annotations

import pickle

from onnxgen.errors import BackendError, OnnxgenError


def portable(error: BaseException) -> OnnxgenError:
    """The error itself if it is ours and arrives as what it is; else a `BackendError` that says what it was."""
    if isinstance(error, OnnxgenError) and _arrives(error):
        return error
    told = BackendError(f"{type(error).__name__}: {error}")
    told.__cause__ = error
    return told


def _arrives(error: OnnxgenError) -> bool:
    if type(error).__module__ != OnnxgenError.__module__:
        return False  # a class that the other process may not have
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - whatever its parts raise
        return False
    return type(copy) is type(error) and str(copy) == str(error)
