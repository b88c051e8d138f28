"""What a build did: `BuildReport`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BuildReport:
    """The result of a build.

    Attributes:
        output: The model folder.
        size_bytes: Size of all its files.
        seconds: How long the build took.
        architecture: Architecture of the checkpoint.
        precision: Precision that was asked for.
        formats: Storage format to the number of matrices stored in it, such as ``int4 block 32``.
        float_zero_points: Matrices whose zero points are floating point, which ONNX Runtime multiplies
            without its fast integer path.
    """

    output: Path
    size_bytes: int
    seconds: float
    architecture: str
    precision: str
    formats: Mapping[str, int]
    float_zero_points: int
