"""Powers of two for weights: cheap, exactly 1 at 0."""

from __future__ import annotations

from typing import Any

from onnxgen.graph.cpu.compiled.vectors import FLOATS, INTS, every, fma
from onnxgen.graph.cpu.isa import Isa

ROUNDER = 1.5 * 2.0**23
"""Added to a small number it leaves the nearest integer in the low bits of the sum."""

_SMALLEST = -126.0

_COEFFICIENTS = (
    0.001326472706521048,
    0.009671512648909496,
    0.055507337416521,
    0.24022242085173234,
    0.6931469775988579,
)
"""``(2 ** f - 1) / f`` over [-1/2, 1/2], highest power first; fitted to 1e-7 of ``2 ** f``."""


def power_of_two(b: Any, isa: Isa, x: Any) -> Any:
    """``2 ** x`` of ``<16 x float>`` up to 126, right to 2e-7; not less than ``2 ** -126``; NaN stays."""
    x = b.select(b.fcmp_ordered("<", x, every(FLOATS, _SMALLEST)), every(FLOATS, _SMALLEST), x)
    shifted = b.fadd(x, every(FLOATS, ROUNDER))
    fraction = b.fsub(x, b.fsub(shifted, every(FLOATS, ROUNDER)))
    power = every(FLOATS, _COEFFICIENTS[0])
    for coefficient in (*_COEFFICIENTS[1:], 1.0):
        power = fma(b, isa, power, fraction, every(FLOATS, coefficient))
    exponent = b.shl(b.bitcast(shifted, INTS), every(INTS, 23))
    return b.bitcast(b.add(b.bitcast(power, INTS), exponent), FLOATS)
