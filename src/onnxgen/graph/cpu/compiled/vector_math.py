"""Functions of 16 float32 at once, written as instructions of LLVM.

Each takes a builder and a ``<16 x float>`` and returns another; no library is called, so what contains them links to
nothing. A lane's result depends on that lane alone, and multiply-adds are explicit: the same bits wherever they are used.

    exp                 2e-7 of the value; 0 and infinity where float32 ends
    log                 2e-7 of the value, or 1e-7 near 1, where that is more; NaN below 0
    sigmoid, silu       3e-7 of the value down to -87, beyond it nearer to 0 than 1e-35
    tanh                4e-7 of the value
    erf                 4e-7 of the value
    gelu                3e-7 of ``x``: the sum cancels where ``x`` is below 0, as it does in every float32 formula of it
    gelu_tanh           1e-6 of the value near 0, growing as the exponent does
    inverse_root        correctly rounded, twice

NaN gives NaN.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from onnxgen.graph.cpu import erf as fitted

LANES = 16
FLOATS = ir.VectorType(ir.FloatType(), LANES)
INTS = ir.VectorType(ir.IntType(32), LANES)

_LOG2_E, _LN2_HIGH, _LN2_LOW = math.log2(math.e), 0.693359375, -2.12194440054690583e-4
_EXP = (
    0.0013814216945320368,
    0.008368900045752525,
    0.04166840761899948,
    0.1666651964187622,
    0.4999999403953552,
)
"""``(exp(r) - 1 - r) / r^2`` over [-ln(2) / 2, ln(2) / 2], highest power first; fitted to 3e-9 of ``exp(r)``."""
_EXP_LOWEST, _EXP_NORMAL, _EXP_HIGHEST = -104.0, -87.0, 89.0

_ROUNDING = 12582912.0
"""1.5 * 2^23: added to a number below 2^22, it leaves the nearest integer in the low bits."""

_ARTANH = (2 / 9, 2 / 7, 2 / 5, 2 / 3)
"""``artanh(s) / s``, doubled, after its first term; 3e-9 of the value where ``s`` is at most 0.172."""
_SMALLEST_NORMAL, _RAISED, _ROOT_HALF_BITS = 2.0**-126, 24, 0x3F3504F3

_TANH = (
    (1.3319307805322084e-08, 2.058365726361102e-05, 0.0034940455194223895, 0.13379727263418778, 0.99999998),
    (7.762117664246913e-07, 0.0003283110673574557, 0.02587111518307064, 0.4671304251224826, 1.0),
)
"""``tanh(x) / x`` as a quotient of polynomials in ``x^2`` over [0, 81.4], fitted to 1e-8; beyond, tanh is 1."""
_TANH_FLAT = 9.02

_ERF = (
    (fitted.P5, fitted.P4, fitted.P3, fitted.P2, fitted.P1, fitted.P0),
    (fitted.Q6, fitted.Q5, fitted.Q4, fitted.Q3, fitted.Q2, fitted.Q1, 1.0),
)
_ERF_FLAT = 3.92

_SIGMOID_HIGHEST = 88.0
_GATE_SHUT = -104.0
"""Below it ``x * sigmoid(x)`` is nearer to 0 than any normal number."""


@dataclass(frozen=True, slots=True)
class Vector:
    """A ``<16 x float>`` with the operators of Python; plain numbers stand for all lanes."""

    builder: Any
    value: Any

    def lanes_of(self, other: Vector | float) -> Any:
        """The value of LLVM for a vector or a number."""
        return other.value if isinstance(other, Vector) else ir.Constant(FLOATS, [other] * LANES)

    def _of(self, value: Any) -> Vector:
        return Vector(self.builder, value)

    def call(self, name: str, *operands: Vector | float) -> Vector:
        """LLVM's intrinsic of that name, of this vector and others."""
        kind = ir.FunctionType(FLOATS, [FLOATS] * (1 + len(operands)))
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{LANES}f32")
        return self._of(self.builder.call(function, [self.value, *map(self.lanes_of, operands)]))

    def __add__(self, other: Vector | float) -> Vector:
        return self._of(self.builder.fadd(self.value, self.lanes_of(other)))

    def __sub__(self, other: Vector | float) -> Vector:
        return self._of(self.builder.fsub(self.value, self.lanes_of(other)))

    def __mul__(self, other: Vector | float) -> Vector:
        return self._of(self.builder.fmul(self.value, self.lanes_of(other)))

    def __truediv__(self, other: Vector | float) -> Vector:
        return self._of(self.builder.fdiv(self.value, self.lanes_of(other)))

    def __neg__(self) -> Vector:
        return self._of(self.builder.fneg(self.value))

    def over(self, numerator: float) -> Vector:
        """``numerator / self``."""
        return self._of(self.builder.fdiv(self.lanes_of(numerator), self.value))

    def times_plus(self, factor: Vector | float, addend: Vector | float) -> Vector:
        """``self * factor + addend``, rounded once where the processor can."""
        return self.call("fmuladd", factor, addend)

    def polynomial(self, coefficients: tuple[float, ...]) -> Vector:
        """The polynomial with these coefficients, highest power first."""
        highest, following, *rest = coefficients
        return functools.reduce(
            lambda value, coefficient: value.times_plus(self, coefficient),
            rest,
            self.times_plus(highest, following),
        )

    def within(self, low: float, high: float) -> Vector:
        """At least ``low`` and at most ``high``; ``low`` for NaN."""
        raised = self.choose(">", low, self, low)
        return raised.choose("<", high, raised, high)

    def at_least(self, low: float) -> Vector:
        """The larger one; NaN stays."""
        return self.choose("<", low, low, self)

    def at_most(self, high: float) -> Vector:
        """The smaller one; NaN stays."""
        return self.choose(">", high, high, self)

    def or_nan_of(self, x: Vector) -> Vector:
        """This value, but NaN where ``x`` is."""
        unordered = self.builder.fcmp_unordered("uno", x.value, x.value)
        return self._of(self.builder.select(unordered, x.value, self.value))

    def choose(self, comparison: str, limit: float, yes: Vector | float, no: Vector | float) -> Vector:
        """``yes`` where the comparison with a limit holds, else ``no``, as for NaN."""
        holds = self.builder.fcmp_ordered(comparison, self.value, self.lanes_of(limit))
        return self._of(self.builder.select(holds, self.lanes_of(yes), self.lanes_of(no)))

    def rounded(self) -> Vector:
        """The nearest whole number."""
        return self.call("rint")

    def root(self) -> Vector:
        """The square root."""
        return self.call("sqrt")


def exp(builder: Any, value: Any) -> Any:
    """``e ** x``: powers of two are taken out, the rest is a polynomial."""
    x = Vector(builder, value)
    z = x.within(_EXP_LOWEST, _EXP_HIGHEST)
    exponent = (z * _LOG2_E).rounded()
    r = exponent.times_plus(-_LN2_LOW, exponent.times_plus(-_LN2_HIGH, z))
    power = r.polynomial(_EXP).times_plus(r * r, r + 1.0)
    # In two steps: 2 ** exponent itself may lie outside of float32 where the product does not.
    whole = builder.fptosi(exponent.value, INTS)
    half = builder.ashr(whole, ir.Constant(INTS, [1] * LANES))
    scaled = power * _power_of_two(builder, half) * _power_of_two(builder, builder.sub(whole, half))
    return scaled.or_nan_of(x).value


def exp_of_negative(builder: Any, value: Any) -> Any:
    """``e ** x`` for ``x`` at most 0, in two thirds of the time: 0 below the normal numbers, 2e-7 of the value else."""
    x = Vector(builder, value)
    return x.choose("<", _EXP_NORMAL, 0.0, _normal_exp(x.at_least(_EXP_NORMAL))).value


def _normal_exp(x: Vector) -> Vector:
    """``e ** x`` between -87 and 88, where it and all powers of two on the way are normal numbers."""
    shifted = x.times_plus(_LOG2_E, _ROUNDING)
    exponent = shifted - _ROUNDING
    r = exponent.times_plus(-_LN2_LOW, exponent.times_plus(-_LN2_HIGH, x))
    power = r.polynomial(_EXP).times_plus(r * r, r + 1.0)
    # The whole number is in the low bits of what it was rounded with.
    return power * _power_of_two(x.builder, x.builder.bitcast(shifted.value, INTS))


def _power_of_two(builder: Any, whole: Any) -> Vector:
    biased = builder.add(whole, ir.Constant(INTS, [127] * LANES))
    return Vector(builder, builder.bitcast(builder.shl(biased, ir.Constant(INTS, [23] * LANES)), FLOATS))


def log(builder: Any, value: Any) -> Any:
    """The natural logarithm: ``x = m * 2 ** e`` with ``m`` around 1, and ``log(m) = 2 * artanh((m - 1) / (m + 1))``."""
    x = Vector(builder, value)
    # Numbers below the normal ones are brought up first.
    bits = builder.bitcast(x.choose("<", _SMALLEST_NORMAL, x * 2.0**_RAISED, x).value, INTS)
    shift = ir.Constant(INTS, [23] * LANES)
    whole = builder.ashr(builder.sub(bits, ir.Constant(INTS, [_ROOT_HALF_BITS] * LANES)), shift)
    m = Vector(builder, builder.bitcast(builder.sub(bits, builder.shl(whole, shift)), FLOATS))
    exponent = Vector(builder, builder.sitofp(whole, FLOATS))
    exponent = x.choose("<", _SMALLEST_NORMAL, exponent - float(_RAISED), exponent)
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    # log(m) = f - s * (f - rest), which keeps the digits of a small f.
    rest = z * z.polynomial(_ARTANH)
    mantissa = exponent.times_plus(_LN2_LOW, s.times_plus(rest - f, f))
    finite = exponent.times_plus(_LN2_HIGH, mantissa)
    positive = x.choose("==", math.inf, x, finite)
    return x.choose(">", 0.0, positive, x.choose("==", 0.0, -math.inf, math.nan)).value


def sigmoid(builder: Any, value: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    negated = -Vector(builder, value)
    power = _normal_exp(negated.at_least(_EXP_NORMAL).at_most(_SIGMOID_HIGHEST))
    return (power + 1.0).over(1.0).value


def silu(builder: Any, value: Any, alpha: Any = 1.0) -> Any:
    """``x * sigmoid(alpha * x)``; ``alpha`` is a number or a ``<16 x float>``, above 0. With 1.702 it is quick GELU."""
    x = Vector(builder, value)
    factor = alpha if isinstance(alpha, float) else Vector(builder, alpha)
    gate = Vector(builder, sigmoid(builder, value if alpha == 1.0 else (x * factor).value))
    return _gated(x, gate)


def _gated(x: Vector, gate: Vector) -> Any:
    """``x * gate``, where the gate is shut far below 0, however far."""
    return (x.at_least(_GATE_SHUT) * gate).value


def tanh(builder: Any, value: Any) -> Any:
    """The hyperbolic tangent."""
    return _quotient(Vector(builder, value), _TANH, _TANH_FLAT).value


def erf(builder: Any, value: Any) -> Any:
    """The error function."""
    return _quotient(Vector(builder, value), _ERF, _ERF_FLAT).value


def _quotient(x: Vector, polynomials: tuple[tuple[float, ...], tuple[float, ...]], flat: float) -> Vector:
    """``x * p(x^2) / q(x^2)``, within -1 and 1, and these themselves beyond ``flat``."""
    z = x.at_least(-flat).at_most(flat)
    t = z * z
    p, q = (t.polynomial(coefficients) for coefficients in polynomials)
    y = (z * p / q).at_least(-1.0).at_most(1.0)
    return x.choose(">", flat, 1.0, x.choose("<", -flat, -1.0, y))


def gelu(builder: Any, value: Any) -> Any:
    """``x / 2 * (1 + erf(x / sqrt(2)))``."""
    x = Vector(builder, value)
    normal = Vector(builder, erf(builder, (x * 0.5**0.5).value))
    return _gated(x, normal.times_plus(0.5, 0.5))


def gelu_tanh(builder: Any, value: Any) -> Any:
    """``x / 2 * (1 + tanh(u))`` with ``u = sqrt(2 / pi) * (x + 0.044715 x^3)``, as ``x * sigmoid(2 u)``."""
    x = Vector(builder, value)
    slope = 2 * math.sqrt(2 / math.pi)
    doubled = x * (x * x).times_plus(slope * 0.044715, slope)
    return _gated(x, Vector(builder, sigmoid(builder, doubled.value)))


def inverse_root(builder: Any, value: Any) -> Any:
    """``1 / sqrt(x)``."""
    return Vector(builder, value).root().over(1.0).value
