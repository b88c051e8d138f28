"""Which execution providers the installed ONNX Runtime has."""

from __future__ import annotations


def available_providers() -> tuple[str, ...]:
    """Names of the execution providers of this machine's ONNX Runtime, in its own order of preference."""
    import onnxruntime

    return tuple(onnxruntime.get_available_providers())
