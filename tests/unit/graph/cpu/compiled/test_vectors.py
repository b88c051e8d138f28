"""Vector instructions of every instruction set that this machine has, against whole numbers; NEON as assembly."""

from __future__ import annotations

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernel_runs import fresh_rng
from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.isa import Isa

HERE = [isa for isa in Isa if isa.runs_on(detect_cpu().features)]


def compiled(emit, count):
    """``run(address of the result, addresses of operands...)`` of what ``emit(b, *addresses)`` gives."""

    def generate(context, builder, _, arguments):
        v.store(builder, emit(builder, *arguments[1:]), arguments[0])
        return context.get_dummy_value()

    signature = types.void(*[types.intp] * (count + 1))
    typed = {
        1: lambda context, y, a: (signature, generate),
        3: lambda context, y, a, b, c: (signature, generate),
    }[count]
    inner = intrinsic(typed)
    if count == 1:
        return numba.njit(lambda y, a: inner(y, a))
    return numba.njit(lambda y, a, b, c: inner(y, a, b, c))


def on(function, dtype, *arrays):
    """The 16 results of a compiled function on arrays."""
    y = np.zeros(16, dtype)
    function(np.intp(y.ctypes.data), *(np.intp(array.ctypes.data) for array in arrays))
    return y


@pytest.mark.parametrize("largest", [3, 15, 127, 255])
@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.value)
def test_products_of_bytes_are_exact(isa, largest):
    def emit(b, total, x, y):
        loaded = v.load(b, total, v.INTS), v.load(b, x, v.BYTES), v.load(b, y, v.BYTES)
        return v.dot_bytes(b, isa, *loaded, largest=largest)

    run = compiled(emit, 3)
    rng = fresh_rng()
    total = rng.integers(-(2**30), 2**30, 16).astype(np.int32)
    random = rng.integers(0, largest + 1, 64), rng.integers(-127, 128, 64)
    extreme = np.full(64, largest), np.repeat([-127, 127], 32)
    for x, y in (random, extreme):
        expected = total + (x * y).reshape(16, 4).sum(1)
        assert (on(run, np.int32, total, x.astype(np.uint8), y.astype(np.int8)) == expected).all()


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.value)
def test_products_of_words_are_exact(isa):
    def emit(b, total, x, y):
        return v.dot_words(b, isa, v.load(b, total, v.INTS), v.load(b, x, v.WORDS), v.load(b, y, v.WORDS))

    run = compiled(emit, 3)
    rng = fresh_rng()
    total = rng.integers(-(2**28), 2**28, 16).astype(np.int32)
    for bound in (255, 32767):
        x = rng.integers(-min(bound, 12000), min(bound, 12000) + 1, 32).astype(np.int16)
        y = rng.integers(-bound, bound + 1, 32).astype(np.int16)
        expected = total + (x.astype(int) * y).reshape(16, 2).sum(1)
        assert (on(run, np.int32, total, x, y) == expected).all()


@pytest.mark.parametrize("isa", [isa for isa in HERE if isa in (Isa.AVX512, Isa.AVX2)], ids=str)
def test_products_of_small_bytes_may_be_summed_in_words(isa):
    count = 8
    assert v.sums_fit_words(isa, 15, count)
    assert not v.sums_fit_words(isa, 15, count + 1)
    assert not v.sums_fit_words(isa, 255, 1)

    def emit(b, total, x, y):
        words = v.every(v.WORDS, 0)
        for _ in range(count):
            words = v.add_pairs(b, isa, words, v.load(b, x, v.BYTES), v.load(b, y, v.BYTES))
        return v.add_words(b, isa, v.load(b, total, v.INTS), words)

    run, rng = compiled(emit, 3), fresh_rng()
    total = rng.integers(-(2**30), 2**30, 16).astype(np.int32)
    for x, y in (
        (rng.integers(0, 16, 64), rng.integers(-127, 128, 64)),
        (np.full(64, 15), np.repeat([-127, 127], 32)),
    ):
        expected = total + count * (x * y).reshape(16, 4).sum(1)
        assert (on(run, np.int32, total, x.astype(np.uint8), y.astype(np.int8)) == expected).all()


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.value)
def test_every_float16_becomes_its_float32_and_comes_back(isa):
    widen = compiled(lambda b, x: v.from_half(b, isa, v.load(b, x, v.HALVES)), 1)
    narrow = compiled(lambda b, x: v.to_half(b, isa, v.load(b, x, v.FLOATS)), 1)
    bits = np.arange(65536, dtype=np.uint16).reshape(-1, 16)
    wide = np.stack([on(widen, np.float32, row) for row in bits])
    expected = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(wide, expected)
    assert (np.signbit(wide) == np.signbit(expected)).all()
    back = np.stack([on(narrow, np.uint16, row) for row in wide]).view(np.float16)
    np.testing.assert_array_equal(back, bits.view(np.float16))


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.value)
def test_float32_is_rounded_to_the_nearest_float16(isa):
    narrow = compiled(lambda b, x: v.to_half(b, isa, v.load(b, x, v.FLOATS)), 1)
    x = fresh_rng().integers(0, 2**32, (4000, 16), dtype=np.uint32).view(np.float32)
    halfway = np.arange(16, dtype=np.float32) / 2 + np.float32(2048)
    edges = [0, -0.0, 65519, 65520, -65536, 1e-8, 2.98e-8, 6.1e-5, 6.09e-5, 1e30, np.inf, -np.inf, 1, 2, 3, 4]
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for row in (*x, halfway, np.array(edges, np.float32)):
            np.testing.assert_array_equal(on(narrow, np.uint16, row).view(np.float16), row.astype(np.float16))


@pytest.mark.parametrize("isa", HERE, ids=lambda isa: isa.value)
def test_fma_adds_a_product(isa):
    def emit(b, x, y, z):
        return v.fma(b, isa, *(v.load(b, at, v.FLOATS) for at in (x, y, z)))

    rng = fresh_rng()
    x, y, z = rng.standard_normal((3, 16)).astype(np.float32)
    wide = x.astype(float) * y + z
    np.testing.assert_allclose(on(compiled(emit, 3), np.float32, x, y, z), wide, rtol=1e-6, atol=2e-7)


def aarch64_assembly(emit, *kinds):
    """Assembly of a function that reads operands of these types and writes what ``emit`` makes of them."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [v.I64] * (1 + len(kinds))), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    result, *addresses = function.args
    loaded = [v.load(builder, at, kind) for at, kind in zip(addresses, kinds, strict=True)]
    v.store(builder, emit(builder, *loaded), result)
    builder.ret_void()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(
        cpu="cortex-a76", features="+dotprod"
    )
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    return machine.emit_assembly(parsed)


def test_neon_multiplies_bytes_by_sdot():
    def small(b, total, x, y):
        return v.dot_bytes(b, Isa.NEON_DOTPROD, total, x, y, largest=15)

    def whole(b, total, x, y):
        return v.dot_bytes(b, Isa.NEON_DOTPROD, total, x, y)

    kinds = v.INTS, v.BYTES, v.BYTES
    assert aarch64_assembly(small, *kinds).count("\tsdot\t") == 4
    assert aarch64_assembly(whole, *kinds).count("\tsdot\t") == 12


def test_neon_multiplies_words_without_leaving_vectors():
    text = aarch64_assembly(
        lambda b, total, x, y: v.dot_words(b, Isa.NEON_DOTPROD, total, x, y), v.INTS, v.WORDS, v.WORDS
    )
    assert text.count("\tsmull") + text.count("\tsmlal") >= 8
    assert "\tbl\t" not in text
