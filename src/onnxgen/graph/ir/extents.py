"""Where the bytes of a tensor are in a file: for those who read them again in another way than through the mapping."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

_KEY = "onnxgen.extent"


@dataclass(frozen=True, slots=True)
class Extent:
    """Little-endian elements in C order at a place of a file.

    Attributes:
        location: Name of the file, relative to the model's folder.
        offset: Where the bytes begin.
    """

    location: str
    offset: int


def set_extent(tensor: ir.TensorProtocol, extent: Extent) -> None:
    """Note where a tensor's bytes are."""
    tensor.meta[_KEY] = extent


def extent_of(tensor: ir.TensorProtocol) -> Extent | None:
    """Where a tensor's bytes are; None for one that is not in a file of external data."""
    return tensor.meta.get(_KEY)
