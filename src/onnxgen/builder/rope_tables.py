"""Frequencies of rotary embeddings, and the tables of cosines and sines made from them.

Angles are float32 products of position and frequency, as the models were trained with; a more exact angle
would be a different one at large positions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from onnxgen.builder.spec import Llama3Scaling, RopeKind, RopeSpec, YarnScaling

_ROWS_AT_ONCE = 4096

Frequencies = npt.NDArray[np.float32]


def base_frequencies(rope: RopeSpec) -> Frequencies:
    """Frequencies before any scaling, float32 ``[rotary_dim / 2]``."""
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float32) / np.float32(rope.rotary_dim)
    return (1.0 / np.power(np.float32(rope.theta), exponents)).astype(np.float32)


def frequencies(rope: RopeSpec, *, divisors: npt.NDArray[np.float32] | None = None) -> Frequencies:
    """Frequencies of a rotary embedding, float32 ``[rotary_dim / 2]`` (LongRoPE: of short sequences).

    Args:
        rope: The embedding.
        divisors: Stored divisors of the frequencies, where the checkpoint has them.
    """
    plain = base_frequencies(rope)
    if divisors is not None:
        return (plain / divisors).astype(np.float32)
    match rope.kind:
        case RopeKind.DEFAULT | RopeKind.DYNAMIC:
            return plain
        case RopeKind.LINEAR:
            return (plain / np.float32(rope.factor)).astype(np.float32)
        case RopeKind.LLAMA3:
            assert rope.llama3 is not None
            return _llama3(plain, rope.factor, rope.llama3)
        case RopeKind.YARN:
            assert rope.yarn is not None
            return _yarn(rope, rope.yarn)
        case RopeKind.LONGROPE:
            assert rope.longrope is not None
            return _longrope(rope, rope.longrope.short_factors)


def long_frequencies(rope: RopeSpec) -> Frequencies:
    """LongRoPE's frequencies of long sequences, float32 ``[rotary_dim / 2]``."""
    assert rope.longrope is not None
    return _longrope(rope, rope.longrope.long_factors)


def table_rows(
    angles_per_position: Frequencies, *, rows: int, magnitude: float, sine: bool
) -> Iterator[npt.NDArray[np.float32]]:
    """Rows of a table, float32 ``[rows, rotary_dim / 2]`` in consecutive pieces."""
    for start in range(0, rows, _ROWS_AT_ONCE):
        positions = np.arange(start, min(start + _ROWS_AT_ONCE, rows), dtype=np.float32)
        angles = (positions[:, None] * angles_per_position[None, :]).astype(np.float64)
        values = np.sin(angles) if sine else np.cos(angles)
        yield (values * magnitude).astype(np.float32)


def _llama3(plain: Frequencies, factor: float, scaling: Llama3Scaling) -> Frequencies:
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    rotations = scaling.original_context * plain.astype(np.float64) / (2 * math.pi)
    # 0 where a wave is longer than the original context over `low`, 1 where it is shorter than over `high`.
    keep = np.clip((rotations - low) / (high - low), 0.0, 1.0)
    return ((1 - keep) * plain / factor + keep * plain).astype(np.float32)


def _yarn(rope: RopeSpec, scaling: YarnScaling) -> Frequencies:
    dim = rope.rotary_dim

    def dimension_with(rotations: float) -> float:
        ratio = scaling.original_context / (rotations * 2 * math.pi)
        return dim * math.log(ratio) / (2 * math.log(rope.theta))

    low, high = dimension_with(scaling.beta_fast), dimension_with(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    width = (high - low) or 0.001
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - low) / width, 0.0, 1.0)
    plain = base_frequencies(rope).astype(np.float64)
    return (plain / rope.factor * ramp + plain * (1 - ramp)).astype(np.float32)


def _longrope(rope: RopeSpec, factors: tuple[float, ...]) -> Frequencies:
    exponents = np.arange(0, rope.rotary_dim, 2, dtype=np.float32) / np.float32(rope.rotary_dim)
    stretched = np.asarray(factors, dtype=np.float32) * np.power(np.float32(rope.theta), exponents)
    return (1.0 / stretched).astype(np.float32)
