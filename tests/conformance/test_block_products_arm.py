"""Tiles of products as code for Arm's dot product instructions: assembled everywhere, run where an emulator is installed."""

from __future__ import annotations

import shutil
import subprocess

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from block_products import Activations, multiply, random_matrix
from kernel_runs import fresh_rng
from onnxgen.graph.cpu.compiled import vectors as v
from onnxgen.graph.cpu.compiled.blocks.format import PANEL_COLUMNS, PANEL_TILES, VECTOR_BYTES
from onnxgen.graph.cpu.compiled.blocks.panels import tile_shapes
from onnxgen.graph.cpu.compiled.blocks.tile import OUT_BYTES, emit_tile
from onnxgen.graph.cpu.isa import Isa
from onnxgen.graph.cpu.packed_blocks import pack

TOOLS = [shutil.which(name) for name in ("aarch64-linux-gnu-as", "aarch64-linux-gnu-ld", "qemu-aarch64")]

START = """
    .globl _start
_start:
    mov x0, #0          // read all memory from standard input
    ldr x1, =memory
    ldr x2, ={size}
    mov x8, #63
    svc #0
    ldr x0, =memory
    bl run
    mov x0, #1          // write the results
    ldr x1, =memory + {results}
    ldr x2, ={results_size}
    mov x8, #64
    svc #0
    mov x0, #0
    mov x8, #93
    svc #0
    .bss
    .balign 64
memory:
    .skip {size}
"""

FORMATS = [
    (4, 32, "middle", False),
    (4, 64, "bytes", True),
    (8, 32, "bytes", False),
    (2, 16, "offsets", False),
]
"""Bits, block, zeros, words."""


def tile_code(form, shape, groups, places, x_stride, scale_stride):
    """LLVM's text of ``run(memory)``, which multiplies a panel: each operand has its place in the memory."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [v.I64]), "run")
    b = ir.IRBuilder(function.append_basic_block())
    panel, q, scales, sums, y = (
        b.add(function.args[0], v.I64(places[name])) for name in ("panel", "q", "scales", "sums", "y")
    )
    counts = v.I64(groups), v.I64(x_stride), v.I64(scale_stride), v.I64(0), v.I64(0)
    for tile in range(0, PANEL_TILES, shape.tiles):
        place = b.add(y, v.I64(tile * VECTOR_BYTES))
        emit_tile(b, Isa.NEON_DOTPROD, form, shape, panel, v.I64(tile), q, scales, sums, place, *counts)
    b.ret_void()
    return str(module)


def machine():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("aarch64-linux-gnu")
    return target.create_target_machine(cpu="cortex-a76", features="+dotprod", reloc="static", opt=3)


@pytest.fixture(params=FORMATS, ids=str)
def case(request):
    """A panel, activations of three rows, and what this machine makes of them."""
    rng = fresh_rng()
    bits, block, zeros, words = request.param
    packed = pack([random_matrix(rng, PANEL_COLUMNS, 130, bits, block, zeros)], words=words)
    x = rng.standard_normal((3, 130)).astype(np.float32)
    quantized = Activations(x, packed.form.group, words=words)
    return packed, quantized, multiply(packed, quantized)


@pytest.mark.parametrize(
    "shape", tile_shapes(Isa.NEON_DOTPROD), ids=lambda shape: f"{shape.rows}x{shape.tiles}"
)
def test_tiles_for_arm_use_its_instructions_and_give_the_same_bits(case, shape, tmp_path):
    packed, quantized, expected = case
    pieces = {
        "panel": packed.data.tobytes(),
        "q": quantized.q.tobytes(),
        "scales": quantized.scales.tobytes(),
        "sums": quantized.sums.tobytes(),
        "y": bytes(OUT_BYTES * shape.rows),
    }
    places, memory = {}, b""
    for name, piece in pieces.items():
        places[name] = len(memory)
        memory += piece + bytes(-len(piece) % 64)
    strides = quantized.q.strides[0], quantized.scales.strides[0]
    code = tile_code(packed.form, shape, packed.groups, places, *strides)
    llvm.parse_assembly(code).verify()
    assembly = machine().emit_assembly(llvm.parse_assembly(code))
    instructions = ("\tsmlal", "\tsmull") if packed.form.words else ("\tsdot",)
    assert sum(assembly.count(each) for each in instructions) >= packed.form.steps * shape.rows
    assert "\tbl\t" not in assembly
    if None in TOOLS:
        pytest.skip("running it takes qemu-aarch64 and the binutils of aarch64-linux-gnu")
    assembler, linker, emulator = TOOLS
    files = {name: tmp_path / name for name in ("tile.o", "start.s", "start.o", "program", "memory")}
    files["tile.o"].write_bytes(machine().emit_object(llvm.parse_assembly(code)))
    results = {"results": places["y"], "results_size": len(pieces["y"])}
    files["start.s"].write_text(START.format(size=len(memory), **results))
    files["memory"].write_bytes(memory)
    subprocess.run([assembler, "-o", files["start.o"], files["start.s"]], check=True)
    linked = [linker, "-static", "-o", files["program"], files["start.o"], files["tile.o"]]
    subprocess.run(linked, check=True)
    with files["memory"].open("rb") as given:
        command = [emulator, "-cpu", "max", files["program"]]
        done = subprocess.run(command, stdin=given, capture_output=True, check=True)
    y = np.frombuffer(done.stdout, np.float32).reshape(shape.rows, PANEL_COLUMNS)
    np.testing.assert_array_equal(y, expected[: shape.rows])
