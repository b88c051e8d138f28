import numpy as np
import pytest

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu import peaks
from onnxgen.graph.cpu.compiled.peaks import SUMS, num_sums
from onnxgen.graph.cpu.isa import Isa
from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.running import run_parts

ISAS = [isa for isa in Isa if isa.runs_on(detect_cpu().features)]


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.value)
@pytest.mark.parametrize("integers", [True, False])
def test_every_instruction_is_done(isa, integers):
    results = np.zeros(3, np.int64)
    kernel = step_kernel("peaks:peak", ("rounds", "results"), integers=integers, isa=isa)
    run_parts(kernel, parts=3, rounds=10, results=results.ctypes.data)
    sums = num_sums(isa)
    turns = 10 * SUMS // sums
    growth = 3 * 4 * turns if integers else turns // 2
    assert results.tolist() == [16 * (sum(range(sums)) + sums * growth)] * 3


@pytest.mark.parametrize("measure", [peaks.measure_integer_peak, peaks.measure_float_peak])
def test_the_fastest_try_counts(measure, monkeypatch):
    times = iter([0.0, 9.0, 10.0, 12.0, *range(100, 200)])
    monkeypatch.setattr(peaks, "_TRIES", 2)
    monkeypatch.setattr(peaks.time, "perf_counter", lambda: next(times))
    monkeypatch.setattr(peaks, "_ROUNDS", 1000)
    operations = 2 * (16 * 4 if measure is peaks.measure_integer_peak else 16)
    assert measure(2) == 2 * 1000 * SUMS * operations / 2.0
