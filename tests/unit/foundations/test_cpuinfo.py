"""Threads by default, and memory."""

import sys

import pytest

from onnxgen.foundations.cpuinfo import CpuInfo, MemoryInfo, default_threads, detect_cpu, detect_memory


@pytest.mark.parametrize(
    ("physical", "quota", "threads"),
    [(4, None, 4), (4, 2.0, 2), (4, 1.5, 2), (4, 0.5, 1), (4, 8.0, 4), (1, None, 1), (0, None, 1)],
)
def test_a_thread_per_core_within_the_limit(physical, quota, threads):
    cpu = CpuInfo("", "", "x86_64", logical_cores=8, physical_cores=physical, quota_cores=quota)
    assert default_threads(cpu) == threads


def test_this_machine():
    cpu = detect_cpu()
    assert 1 <= default_threads() <= cpu.logical_cores
    assert cpu.architecture


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@linux
def test_memory_of_this_machine():
    memory = detect_memory()
    assert memory.total_bytes is not None
    assert memory.available_bytes is not None
    assert 0 < memory.available_bytes <= memory.total_bytes


@linux
def test_a_container_has_less(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 1000 kB\nMemAvailable: 800 kB\nHugePages_Total: 0\nOdd:\n"
    )
    assert detect_memory(tmp_path) == MemoryInfo(1024000, 819200)
    (tmp_path / "proc/self/mountinfo").write_text("30 24 0:26 / /cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "cg").mkdir()
    (tmp_path / "cg/memory.max").write_text("500000")
    (tmp_path / "cg/memory.current").write_text("200000")
    assert detect_memory(tmp_path) == MemoryInfo(500000, 300000)


@linux
def test_a_system_that_says_nothing(tmp_path):
    assert detect_memory(tmp_path) == MemoryInfo(None, None)
