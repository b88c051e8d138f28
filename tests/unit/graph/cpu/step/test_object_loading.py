import ctypes
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from machine_code import CALLS_AND_CONSTANTS, LIBRARY_CALLS, OUTSIDE, SWITCH, WRITABLE, object_file
from onnxgen.errors import MachineCodeError
from onnxgen.graph.cpu.step.elf_object import UnknownFormError, read_elf
from onnxgen.graph.cpu.step.linking import Image
from onnxgen.graph.cpu.step.object_loading import link, links_itself, load_object, load_with_llvm

pytestmark = pytest.mark.skipif(not links_itself(), reason="object files of this system are not ELF")

_INTEGERS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
_FLOATS = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)

# As we compile kernels, and as Numba does for itself.
_MODELS = [("pic", "small"), ("static", "large")]


@pytest.mark.parametrize(("reloc", "model"), _MODELS)
def test_functions_find_each_other_and_their_constants(reloc, model):
    code = object_file(CALLS_AND_CONSTANTS, reloc=reloc, model=model)
    assert _INTEGERS(link(code, "sum"))(1, 3) == 60
    assert _FLOATS(link(code, "scaled"))(2.0) == pytest.approx(2 * np.pi, abs=0)


@pytest.mark.parametrize(("reloc", "model"), _MODELS)
def test_tables_of_places_are_filled_in(reloc, model):
    code = object_file(SWITCH, reloc=reloc, model=model)
    named, chosen = _INTEGERS(link(code, "named")), _INTEGERS(link(code, "chosen"))
    assert [named(i, 0) for i in range(6)] == [17, 4, 99, -3, 1234567, 0]
    assert (chosen(0, 2), chosen(1, 21)) == (99, 42)


@pytest.mark.parametrize(("reloc", "model"), _MODELS)
def test_memory_is_filled_and_copied_by_the_c_library(reloc, model):
    code = object_file(LIBRARY_CALLS, reloc=reloc, model=model)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    copying = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    data = np.arange(100, dtype=np.uint8)
    kind(link(code, "fill"))(data.ctypes.data, 10)
    assert data[:11].tolist() == [7] * 10 + [10]
    copying(link(code, "copy"))(data.ctypes.data, data.ctypes.data + 50, 20)
    assert data[:20].tolist() == list(range(50, 70))
    copying(link(code, "move"))(data.ctypes.data + 1, data.ctypes.data, 20)
    assert data[1:21].tolist() == list(range(50, 70))


def test_hundreds_of_files_live_side_by_side():
    functions = []
    for number in range(300):
        text = f"define i64 @f(i64 %i, i64 %j) {{\n %s = add i64 %i, {number}\n ret i64 %s\n}}"
        functions.append(_INTEGERS(link(object_file(text), "f")))
    assert [function(1000, 0) for function in functions] == [1000 + number for number in range(300)]


def test_code_cannot_be_written():
    address = link(object_file(CALLS_AND_CONSTANTS), "sum")
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(each, 16) for each in line.split()[0].split("-"))
        if start <= address < end:
            assert line.split()[1] == "r-xp"
            return
    pytest.fail("the code is nowhere")


@pytest.mark.parametrize("text", [OUTSIDE, WRITABLE], ids=["unknown function", "writable data"])
def test_what_the_linker_does_not_know_is_said(text):
    symbol = "lost" if text is OUTSIDE else "next"
    with pytest.raises(UnknownFormError):
        link(object_file(text), symbol)


def test_llvm_loads_what_the_linker_does_not_know():
    code = object_file(WRITABLE)
    following = _INTEGERS(load_object(code, "next"))
    assert [following(0, 0) for _ in range(3)] == [5, 6, 7]


def test_llvm_loads_the_same_code():
    code = object_file(CALLS_AND_CONSTANTS)
    assert _INTEGERS(load_with_llvm(code, "sum"))(0, 2) == _INTEGERS(link(code, "sum"))(0, 2) == 40


def test_a_missing_symbol_is_an_error():
    with pytest.raises(MachineCodeError, match="does not hold 'other'"):
        load_object(object_file(CALLS_AND_CONSTANTS), "other")


@pytest.mark.parametrize("text", [CALLS_AND_CONSTANTS, LIBRARY_CALLS, SWITCH])
def test_every_cut_file_is_an_error(text):
    code = object_file(text)
    for length in range(len(code)):
        with pytest.raises(MachineCodeError):
            _linked(code[:length])


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
@pytest.mark.parametrize("text", [CALLS_AND_CONSTANTS, LIBRARY_CALLS, SWITCH])
def test_damaged_files_are_linked_or_refused_and_nothing_else(text, triple):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator, whole = random.Random(seed), object_file(text, triple=triple)
    refused = 0
    for _ in range(3000):
        code = bytearray(whole)
        for _ in range(generator.choice([1, 1, 2, 8])):
            place = generator.randrange(len(code))
            code[place] = generator.choice([0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)])
        try:
            _linked(bytes(code))
        except MachineCodeError:
            refused += 1
    assert refused > 300


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"MZ" * 100, bytes(1000), b"\xff" * 1000])
def test_other_files_are_an_error(code):
    with pytest.raises(MachineCodeError):
        load_object(code, "sum")


def _linked(code):
    image = Image(read_elf(code), {"memset": 1 << 40, "memcpy": 2 << 40, "memmove": 3 << 40}.get)
    return image.bound(0x7F12_3456_7000)


def test_a_process_that_loads_code_imports_no_compiler(tmp_path):
    file = tmp_path / "code.o"
    file.write_bytes(object_file(CALLS_AND_CONSTANTS))
    program = (
        "import ctypes, pathlib, sys\n"
        "from onnxgen.graph.cpu.step.object_loading import load_object\n"
        "address = load_object(pathlib.Path(sys.argv[1]).read_bytes(), 'sum')\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)(0, 1))\n"
        "print([name for name in ('numba', 'llvmlite') if name in sys.modules])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines() == ["30", "[]"]
