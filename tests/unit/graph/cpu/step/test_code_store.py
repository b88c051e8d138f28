import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onnxgen.foundations.progress import shown_by
from onnxgen.graph.cpu.compiled.control import LINE_BYTES, Control, Request
from onnxgen.graph.cpu.row_kernels import binary_kernel, unary_kernel
from onnxgen.graph.cpu.step import code_key as keys
from onnxgen.graph.cpu.step import code_store
from onnxgen.graph.cpu.step.code_folder import Code, CodeFolder
from onnxgen.graph.cpu.step.code_key import code_key
from onnxgen.graph.cpu.step.code_store import CodeStore
from onnxgen.graph.cpu.step.compiling import compile_kernel
from onnxgen.graph.cpu.step.crew import Entry
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.table import StepTable
from onnxgen.graph.cpu.step.walkers import LEAD, SERVE, WALKERS
from step_probe import PROBE

_TESTS = Path(__file__).parents[4]

_PROGRAM = """
import sys
import numpy as np
from onnxgen.graph.cpu.row_kernels import unary_kernel, wanted_rows_kernel
from onnxgen.graph.cpu.step.code_store import default_store
from onnxgen.graph.cpu.step.crew import crew
from onnxgen.graph.cpu.step.table import StepShape, StepTable
if {prepared}:
    default_store().prepare([unary_kernel("gelu"), wanted_rows_kernel()])
table = StepTable()
for kernel in (unary_kernel("gelu"), wanted_rows_kernel()):
    table.add(kernel, parts=0, **dict.fromkeys(kernel.arguments, 0))
crew().run(table, table.counts(StepShape(1, 1)), np.zeros(32, np.int64), threads=2)
print(default_store().num_compiled, [name for name in ("numba", "llvmlite") if name in sys.modules])
"""


_compile_once = cache(compile_kernel)


@pytest.fixture(autouse=True)
def _tests_do_not_wait_for_the_compiler(monkeypatch):
    """What was compiled in this process is not compiled for another test."""
    monkeypatch.setattr(code_store, "compile_kernel", _compile_once)


def _start(folder, *, prepared=True):
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(prepared=prepared)],
        env=os.environ | {"ONNXGEN_KERNEL_CACHE": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _output(process):
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return out.strip(), errors


def test_a_second_process_compiles_nothing_and_imports_no_compiler(tmp_path):
    first, _ = _output(_start(tmp_path))
    assert first == "4 []", "the compiler runs in other processes"
    assert _output(_start(tmp_path, prepared=False)) == ("0 []", "")


def test_what_was_not_prepared_is_compiled_when_it_is_called(tmp_path):
    first, _ = _output(_start(tmp_path, prepared=False))
    assert first == "4 ['numba', 'llvmlite']"
    assert _output(_start(tmp_path))[0] == "0 []"


def test_processes_that_start_together_all_run(tmp_path):
    together = [_start(tmp_path) for _ in range(2)]
    for process in together:
        assert _output(process)[0].endswith("[]")
    assert len(list(tmp_path.iterdir())) == 4
    assert _output(_start(tmp_path))[0] == "0 []"


def _calls(store):
    """``lead`` of an empty table: whether the control block is as it leaves it."""
    control, request = np.zeros(256, np.int64), np.arange(8) * 0 + 3
    request[Request.ROWS] = request[Request.LIMIT] = 0
    Entry(store.address(LEAD))(control.ctypes.data, 0, request.ctypes.data, 5)
    start = Control.REQUEST * LINE_BYTES // 8
    return control[start : start + len(request)].tolist() == request.tolist()


def _entry(folder):
    (file,) = folder.glob("*.o")
    return file


def _compiled(folder):
    store = CodeStore(folder)
    assert _calls(store)
    return store.num_compiled


def test_an_entry_is_found_again(tmp_path):
    assert _compiled(tmp_path) == 1
    assert _compiled(tmp_path) == 0
    assert json.loads(_entry(tmp_path).read_bytes().partition(b"\n")[0])["kernel"] == "lead"


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: b"",
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
        lambda whole: b"[]\n" + whole,
        lambda whole: b"\xff\xfe" + whole,
        lambda whole: b'{"sha256": 3}\n',
    ],
    ids=["empty", "cut", "changed", "longer", "no text", "no facts"],
)
def test_a_damaged_entry_is_compiled_anew(damage, tmp_path, caplog):
    _compiled(tmp_path)
    entry = _entry(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    assert _compiled(tmp_path) == 1
    assert f"{entry} is damaged" in caplog.text
    assert _compiled(tmp_path) == 0


@pytest.mark.parametrize(
    "content", [b"", b"no object file", b"\x7fELF\x02\x01\x01" + bytes(100)], ids=["empty", "text", "zeros"]
)
def test_an_entry_that_is_whole_but_no_code_is_compiled_anew(content, tmp_path):
    CodeFolder(tmp_path).write(code_key(LEAD), Code(content, "lead"), name="lead")
    assert _compiled(tmp_path) == 1
    assert _compiled(tmp_path) == 0


def test_a_place_that_cannot_be_written_costs_a_compilation(tmp_path):
    place = tmp_path / "file"
    place.write_text("no folder")
    assert _compiled(place) == 1
    assert _compiled(place) == 1
    store = CodeStore(place)
    store.prepare([LEAD], processes=0)
    assert store.num_compiled == len(WALKERS)
    assert _calls(store)


def test_a_full_disk_costs_a_compilation(tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert _compiled(tmp_path) == 1
    assert list(tmp_path.iterdir()) == []


class _Shown:
    def __init__(self):
        self.events: list[object] = []

    def start(self, description, *, total, unit="bytes"):
        self.events.append((description, total, unit))
        return self

    def advance(self, amount):
        self.events.append(amount)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.events.append("end")


def test_progress_tells_of_each_kernel_that_is_missing(tmp_path):
    shown, store = _Shown(), CodeStore(tmp_path)
    store.address(LEAD)
    store.prepare([LEAD, SERVE, SERVE], progress=shown, processes=0)
    count = len(WALKERS) - 1
    assert shown.events == [("compiling kernels", count, "kernels"), *[1] * count, "end"]
    shown.events.clear()
    store.prepare([LEAD, SERVE], progress=shown)
    CodeStore(tmp_path).prepare([], progress=shown)
    assert shown.events == []


def test_progress_is_the_callers_where_nobody_names_one(tmp_path):
    shown = _Shown()
    with shown_by(shown):
        CodeStore(tmp_path).prepare([], processes=0)
    assert shown.events[0] == ("compiling kernels", len(WALKERS), "kernels")


def test_what_another_program_compiles_meanwhile_is_not_compiled_again(tmp_path):
    class OthersAreFaster(_Shown):
        def start(self, *arguments, **options):
            CodeStore(tmp_path).prepare([], processes=0)
            return super().start(*arguments, **options)

    shown, store = OthersAreFaster(), CodeStore(tmp_path)
    store.prepare([], progress=shown, processes=1)
    assert store.num_compiled == 0
    assert shown.events == [("compiling kernels", len(WALKERS), "kernels"), *[1] * len(WALKERS), "end"]


def test_a_table_loads_its_code_when_all_calls_are_known(tmp_path):
    store = CodeStore(tmp_path)
    table = StepTable(store)
    kernels = [unary_kernel("exp"), binary_kernel("add"), binary_kernel("mul")]
    for kernel in kernels:
        table.add(kernel, **dict.fromkeys(kernel.arguments, 7))
    assert store.num_compiled == 0
    table.load()
    # In other processes, and the functions that walk steps with them.
    assert store.num_compiled == len(kernels) + len(WALKERS)
    assert table.words[:, 0].tolist() == [store.address(kernel) for kernel in kernels]
    table.add(kernels[0], **dict.fromkeys(kernels[0].arguments, 7))
    assert table.words[3].tolist() == table.words[0].tolist()


@pytest.mark.parametrize("processes", [0, 2])
def test_what_other_processes_cannot_compile_is_compiled_here(processes, tmp_path):
    # They do not find the probe's module, which lies with the tests.
    store = CodeStore(tmp_path)
    store.prepare([PROBE], processes=processes)
    assert store.num_compiled == len(WALKERS) + 1
    assert CodeStore(tmp_path).is_stored(PROBE)


def test_an_error_of_a_kernel_is_raised_here(tmp_path):
    broken = step_kernel("row_maps:unary", (), function="no such function")
    with pytest.raises(Exception, match="no such function"):
        CodeStore(tmp_path).prepare([broken], processes=1)


def test_an_interpreter_that_cannot_be_started_costs_time_only(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    store = CodeStore(tmp_path)
    store.prepare([])
    assert store.num_compiled == len(WALKERS)


@pytest.mark.parametrize(
    ("variable", "value", "differs"),
    [
        ("ONNXGEN_ISA", "generic", True),
        ("NUMBA_OPT", "1", True),
        ("NUMBA_CPU_FEATURES", "-avx512f", True),
        ("NUMBA_NUM_THREADS", "1", False),
        ("NUMBA_CACHE_DIR", "/elsewhere", False),
        ("HOME", "/elsewhere", False),
    ],
)
def test_variables_that_change_code_change_its_key(variable, value, differs, monkeypatch):
    keys._surroundings.cache_clear()
    before = code_key(LEAD)
    monkeypatch.setenv(variable, value)
    keys._surroundings.cache_clear()
    try:
        assert (code_key(LEAD) != before) == differs
    finally:
        monkeypatch.undo()
        keys._surroundings.cache_clear()


def test_another_processor_or_compiler_has_other_keys(monkeypatch):
    facts: set[str] = {code_key(LEAD)}
    for name, change in (
        ("_instructions", lambda: "another processor"),
        ("_version", lambda package: "another version"),
        ("source_digest", lambda module: "another source"),
    ):
        keys._surroundings.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(keys, name, change)
            facts.add(code_key(LEAD))
    keys._surroundings.cache_clear()
    facts |= {code_key(SERVE), code_key(step_kernel("walk:open", ()))}
    assert len(facts) == 6


def test_old_and_too_many_entries_are_removed(tmp_path):
    folder = CodeFolder(tmp_path)
    for number in range(6):
        folder.write(f"{number}", Code(bytes(1000), "symbol"), name="kernel")
        used = time.time() - 86400 * 10 * number
        os.utime(tmp_path / f"{number}.o", (used, used))
    (tmp_path / ".9.o.abc.partial").write_bytes(b"half")
    os.utime(tmp_path / ".9.o.abc.partial", (0, 0))
    (tmp_path / ".8.o.abc.partial").write_bytes(b"in progress")
    (tmp_path / "notes.txt").write_text("of somebody else")
    folder.prune(most_days=45, most_bytes=1 << 20)
    assert [key for key in "012345" if folder.holds(key)] == list("01234")
    folder.prune(most_days=45, most_bytes=3500)
    assert [key for key in "012345" if folder.holds(key)] == list("012")
    assert sorted(path.name for path in tmp_path.glob("*") if path.suffix != ".o") == [
        ".8.o.abc.partial",
        "notes.txt",
    ]
    assert folder.usage().num_entries == 3


def test_reading_an_old_entry_makes_it_young(tmp_path):
    folder = CodeFolder(tmp_path)
    folder.write("key", Code(b"code", "symbol"), name="kernel")
    os.utime(tmp_path / "key.o", (0, 0))
    assert folder.read("key") == Code(b"code", "symbol")
    folder.prune()
    assert folder.holds("key")
