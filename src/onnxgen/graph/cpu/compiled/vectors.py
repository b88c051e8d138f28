"""Vectors of sixteen lanes as instructions of LLVM, where what is best depends on the instruction set.

    FLOATS  <16 x float>     INTS   <16 x i32>    one lane a column
    BYTES   <64 x i8>        WORDS  <32 x i16>    four, or two, to a lane of INTS

Each function takes a builder and emits; addresses are integers. LLVM splits the vectors where registers are narrower.
Integer results are the same bits on every instruction set; so are those of floats, but for the multiply-adds of GENERIC.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from onnxgen.graph.cpu.isa import Isa

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
F32 = ir.FloatType()

LANES = 16
FLOATS, INTS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)
WORDS, BYTES = ir.VectorType(I16, 2 * LANES), ir.VectorType(I8, 4 * LANES)
HALVES = ir.VectorType(I16, LANES)
"""The bits of sixteen float16."""

VECTOR_BYTES = 64


def every(kind: Any, value: Any) -> Any:
    """A constant with this value in all lanes."""
    return ir.Constant(kind, [value] * kind.count)


def splat(b: Any, value: Any, kind: Any) -> Any:
    """A scalar in all lanes."""
    nothing = ir.Constant(kind, ir.Undefined)
    one = b.insert_element(nothing, value, I32(0))
    return b.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def load(b: Any, address: Any, kind: Any) -> Any:
    """What lies at an address, aligned or not."""
    return b.load(b.inttoptr(address, kind.as_pointer()), align=1)


def store(b: Any, value: Any, address: Any) -> None:
    """Write to an address, aligned or not."""
    b.store(value, b.inttoptr(address, value.type.as_pointer()), align=1)


def prefetch(b: Any, address: Any, level: int = 1) -> None:
    """Ask for the cache line at an address, which need not be valid, into the cache of a level: 1 to 3."""
    pointer = I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, I32, I32, I32])
    function = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0")
    b.call(function, [b.inttoptr(address, pointer), I32(0), I32(4 - level), I32(1)])


def fma(b: Any, isa: Isa, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once (GENERIC: twice, or once)."""
    if isa is Isa.GENERIC:
        return b.fadd(b.fmul(x, y), z)
    return _call(b, f"llvm.fma.v{x.type.count}f32", x.type, x, y, z)


def from_half(b: Any, isa: Isa, bits: Any) -> Any:
    """float32 of the bits of float16; exact."""
    lanes = bits.type.count
    floats = ir.VectorType(F32, lanes)
    if isa is not Isa.GENERIC:
        return b.fpext(b.bitcast(bits, ir.VectorType(ir.HalfType(), lanes)), floats)
    ints = ir.VectorType(I32, lanes)
    wide = b.zext(bits, ints)
    sign = b.shl(b.and_(wide, every(ints, 0x8000)), every(ints, 16))
    placed = b.shl(b.and_(wide, every(ints, 0x7FFF)), every(ints, 13))
    # The exponent's bias is off by 112; multiplying corrects subnormal numbers too.
    finite = b.bitcast(b.fmul(b.bitcast(placed, floats), every(floats, 2.0**112)), ints)
    special = b.or_(placed, every(ints, 0x7F800000))
    is_special = b.icmp_unsigned(">=", placed, every(ints, 0x7C00 << 13))
    return b.bitcast(b.or_(sign, b.select(is_special, special, finite)), floats)


def to_half(b: Any, isa: Isa, x: Any) -> Any:
    """The bits of the nearest float16, ties to even; infinity beyond, NaN stays NaN."""
    lanes = x.type.count
    halves = ir.VectorType(I16, lanes)
    if isa is not Isa.GENERIC:
        return b.bitcast(b.fptrunc(x, ir.VectorType(ir.HalfType(), lanes)), halves)
    ints = ir.VectorType(I32, lanes)
    bits = b.bitcast(x, ints)
    sign = b.lshr(b.and_(bits, every(ints, -0x80000000)), every(ints, 16))
    size = b.and_(bits, every(ints, 0x7FFFFFFF))
    # Adding 0.5 leaves a subnormal's bits, rounded, at the low end.
    shifted = b.fadd(b.bitcast(size, x.type), every(x.type, 0.5))
    small = b.sub(b.bitcast(shifted, ints), every(ints, 126 << 23))
    odd = b.and_(b.lshr(size, every(ints, 13)), every(ints, 1))
    normal = b.lshr(b.add(b.add(size, every(ints, 0xFFF - (112 << 23))), odd), every(ints, 13))
    is_nan = b.icmp_unsigned(">", size, every(ints, 0x7F800000))
    special = b.select(is_nan, every(ints, 0x7E00), every(ints, 0x7C00))
    finite = b.select(b.icmp_unsigned("<", size, every(ints, 113 << 23)), small, normal)
    value = b.select(b.icmp_unsigned(">=", size, every(ints, 143 << 23)), special, finite)
    return b.trunc(b.or_(sign, value), halves)


def dot_bytes(b: Any, isa: Isa, total: Any, unsigned: Any, signed: Any, *, largest: int = 255) -> Any:
    """Each lane of ``total`` plus the products of its four bytes: exact, as long as the sum is an int32.

    Args:
        b: A builder.
        isa: The instruction set.
        total: INTS.
        unsigned: BYTES, from 0 to ``largest``.
        signed: BYTES, from -127 to 127.
        largest: What ``unsigned`` is known not to exceed; without VNNI, less is faster.
    """
    if isa is Isa.AVX512_VNNI:
        return _call(b, "llvm.x86.avx512.vpdpbusd.512", INTS, total, unsigned, signed)
    if isa is Isa.AVX_VNNI:
        return _in_pieces(b, 2, partial(_vnni_256, b, "vpdpbusd"), total, unsigned, signed)
    if isa is Isa.AVX512:
        return _dot_bytes_by_pairs(b, isa, largest, total, unsigned, signed)
    if isa is Isa.AVX2:
        return _in_pieces(b, 2, partial(_dot_bytes_by_pairs, b, isa, largest), total, unsigned, signed)
    if isa is Isa.NEON_DOTPROD:
        return _in_pieces(b, 4, partial(_sdot, b, largest), total, unsigned, signed)
    words = ir.VectorType(I16, BYTES.count)
    products = b.mul(b.zext(unsigned, words), b.sext(signed, words))
    return b.add(total, _sums_of(b, b.sext(products, ir.VectorType(I32, BYTES.count)), 4))


def sums_fit_words(isa: Isa, largest: int, count: int) -> bool:
    """Whether `add_pairs` is the faster way to sum ``count`` products of four bytes, and exact.

    So it is without VNNI, where pairs of products come as int16 anyway, for elements of up to 4 bits in groups of 32.
    """
    return isa in (Isa.AVX512, Isa.AVX2) and 2 * count * largest * 127 < 1 << 15


def add_pairs(b: Any, isa: Isa, words: Any, unsigned: Any, signed: Any) -> Any:
    """Each int16 of ``words`` plus the products of two bytes; see `dot_bytes`."""
    if isa is Isa.AVX512:
        return b.add(words, _pairs_of_bytes(b, isa, unsigned, signed))
    return b.add(words, _in_pieces(b, 2, partial(_pairs_of_bytes, b, isa), unsigned, signed))


def add_words(b: Any, isa: Isa, total: Any, words: Any) -> Any:
    """Each lane of ``total`` plus its two int16."""
    return dot_words(b, isa, total, words, every(WORDS, 1))


def dot_words(b: Any, isa: Isa, total: Any, x: Any, y: Any) -> Any:
    """Each lane of ``total`` plus the products of its two int16: exact, as long as the sum is an int32.

    ``total`` is INTS, ``x`` and ``y`` are WORDS.
    """
    if isa is Isa.AVX512_VNNI:
        return _call(b, "llvm.x86.avx512.vpdpwssd.512", INTS, total, x, y)
    if isa is Isa.AVX_VNNI:
        return _in_pieces(b, 2, partial(_vnni_256, b, "vpdpwssd"), total, x, y)
    if isa is Isa.AVX512:
        return b.add(total, _sums_of_pairs(b, isa, x, y))
    if isa is Isa.AVX2:
        return b.add(total, _in_pieces(b, 2, partial(_sums_of_pairs, b, isa), x, y))
    wide = ir.VectorType(I32, WORDS.count)
    return b.add(total, _sums_of(b, b.mul(b.sext(x, wide), b.sext(y, wide)), 2))


def _dot_bytes_by_pairs(b: Any, isa: Isa, largest: int, total: Any, unsigned: Any, signed: Any) -> Any:
    """By an instruction that adds two products of bytes in an int16, and saturates: 2 * 127 * 127 does not."""
    words = ir.VectorType(I16, unsigned.type.count // 2)
    if largest <= 127:
        pairs = _pairs_of_bytes(b, isa, unsigned, signed)
        return b.add(total, _sums_of_pairs(b, isa, pairs, every(words, 1)))
    low = b.and_(unsigned, every(unsigned.type, 127))
    top = b.lshr(unsigned, every(unsigned.type, 7))
    low_sums = _sums_of_pairs(b, isa, _pairs_of_bytes(b, isa, low, signed), every(words, 1))
    top_sums = _sums_of_pairs(b, isa, _pairs_of_bytes(b, isa, top, signed), every(words, 128))
    return b.add(b.add(total, low_sums), top_sums)


def _pairs_of_bytes(b: Any, isa: Isa, unsigned: Any, signed: Any) -> Any:
    name = "avx512.pmaddubs.w.512" if isa is Isa.AVX512 else "avx2.pmadd.ub.sw"
    words = ir.VectorType(I16, unsigned.type.count // 2)
    return _call(b, f"llvm.x86.{name}", words, unsigned, signed)


def _sums_of_pairs(b: Any, isa: Isa, x: Any, y: Any) -> Any:
    name = "avx512.pmaddw.d.512" if isa is Isa.AVX512 else "avx2.pmadd.wd"
    return _call(b, f"llvm.x86.{name}", ir.VectorType(I32, x.type.count // 2), x, y)


def _vnni_256(b: Any, instruction: str, total: Any, x: Any, y: Any) -> Any:
    return _call(b, f"llvm.x86.avx512.{instruction}.256", total.type, total, x, y)


def _sdot(b: Any, largest: int, total: Any, unsigned: Any, signed: Any) -> Any:
    name, bytes_16 = "llvm.aarch64.neon.sdot.v4i32.v16i8", unsigned.type
    if largest <= 127:
        return _call(b, name, total.type, total, unsigned, signed)
    # u = (u - 128) + 64 + 64, each of which is a signed byte.
    for part in (b.xor(unsigned, every(bytes_16, -128)), *[every(bytes_16, 64)] * 2):
        total = _call(b, name, total.type, total, part, signed)
    return total


def _sums_of(b: Any, wide: Any, count: int) -> Any:
    """Sums of ``count`` neighbours each."""
    parts = [_picked(b, wide, range(first, wide.type.count, count)) for first in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = b.add(total, part)
    return total


def _in_pieces(b: Any, count: int, function: Callable[..., Any], *vectors: Any) -> Any:
    """Apply a function to each of ``count`` parts of the vectors, and join what it gives."""
    results: list[Any] = []
    for index in range(count):
        sizes = [vector.type.count // count for vector in vectors]
        pieces = [
            _picked(b, vector, range(index * size, (index + 1) * size))
            for vector, size in zip(vectors, sizes, strict=True)
        ]
        results.append(function(*pieces))
    while len(results) > 1:
        pairs = zip(results[::2], results[1::2], strict=True)
        results = [_joined(b, first, second) for first, second in pairs]
    return results[0]


def _picked(b: Any, vector: Any, lanes: range) -> Any:
    indices = ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))
    return b.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), indices)


def _joined(b: Any, first: Any, second: Any) -> Any:
    indices = list(range(2 * first.type.count))
    return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(indices)), indices))


def _call(b: Any, name: str, result: Any, *arguments: Any) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), arguments)
