"""The processor from ``/proc`` and ``/sys``, on made-up machines."""

import os
import sys

import pytest

from onnxgen.foundations.cpu_facts import CacheInfo
from onnxgen.foundations.cpu_linux import count_listed, read_linux

X86 = """processor\t: {cpu}
vendor_id\t: GenuineIntel
model name\t: Made-up Xeon
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse4_2 avx avx2 fma f16c avx512f avx512vl avx512bw avx512vbmi avx512_vnni avx_vnni amx_tile hypervisor
"""
ARM = """processor\t: {cpu}
BogoMIPS\t: 50.00
Features\t: fp asimd asimdhp asimddp i8mm bf16 sve atomics
CPU implementer\t: 0xc0
CPU part\t: 0xd0c
"""


def machine(root, text, count, *, siblings=None):
    (root / "proc").mkdir()
    blocks = [text.format(cpu=i, core=i // 2, socket=0) for i in range(count)]
    (root / "proc/cpuinfo").write_text("\n".join(blocks))
    for cpu, shared in (siblings or {}).items():
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{shared}\n")
    return root


def test_an_x86_with_two_threads_per_core(tmp_path):
    machine(tmp_path, X86, 8, siblings={i: f"{i // 2 * 2}-{i // 2 * 2 + 1}" for i in range(8)})
    cpu = read_linux(tmp_path, cpus=set(range(8)))
    assert (cpu.model_name, cpu.vendor) == ("Made-up Xeon", "GenuineIntel")
    assert (cpu.logical_cores, cpu.physical_cores, cpu.quota_cores) == (8, 4, None)
    assert cpu.features == {
        *("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512vbmi"),
        *("avx512vnni", "avx_vnni", "amx_tile"),
    }


def test_affinity_leaves_fewer_cores(tmp_path):
    machine(tmp_path, X86, 8, siblings={i: f"{i // 2 * 2}-{i // 2 * 2 + 1}" for i in range(8)})
    cpu = read_linux(tmp_path, cpus={0, 1, 4})
    assert (cpu.logical_cores, cpu.physical_cores) == (3, 2)


def test_without_topology_the_core_ids_count(tmp_path):
    cpu = read_linux(machine(tmp_path, X86, 8), cpus=set(range(6)))
    assert (cpu.logical_cores, cpu.physical_cores) == (6, 3)


def test_an_arm_server(tmp_path):
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/model").write_bytes(b"Made-up Board\0")
    (tmp_path / "proc/cpuinfo").write_text("\n".join(ARM.format(cpu=i) for i in range(4)))
    cpu = read_linux(tmp_path, cpus={0, 1, 2, 3})
    assert (cpu.model_name, cpu.vendor, cpu.physical_cores) == ("Made-up Board", "Ampere", 4)
    assert cpu.features == {"neon", "fp16", "dotprod", "i8mm", "bf16", "sve"}


def test_caches_of_the_first_usable_core(tmp_path):
    for index, (level, kind, size, shared) in enumerate(
        [("1", "Data", "48K", "2"), ("1", "Instruction", "32K", "2"), ("3", "Unified", "36M", "0-7")]
    ):
        folder = tmp_path / f"sys/devices/system/cpu/cpu2/cache/index{index}"
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            (folder / name).write_text(f"{text}\n")
    assert read_linux(tmp_path, cpus={2, 3}).caches == (
        CacheInfo(1, "data", 48 << 10, 1),
        CacheInfo(1, "instruction", 32 << 10, 1),
        CacheInfo(3, "unified", 36 << 20, 8),
    )


def test_a_machine_that_says_nothing(tmp_path):
    cpu = read_linux(tmp_path, cpus={0, 1})
    assert (cpu.model_name, cpu.vendor, cpu.logical_cores, cpu.physical_cores) == ("", "", 2, 2)
    assert cpu.caches == ()
    assert cpu.features == frozenset()


@pytest.mark.parametrize(("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8", 5), ("1,3,5-6", 4)])
def test_lists_of_processors(text, count):
    assert count_listed(text) == count


@pytest.mark.skipif(sys.platform != "linux", reason="looks at this machine")
def test_this_machine():
    cpu = read_linux()
    assert cpu.logical_cores == len(os.sched_getaffinity(0))
    assert 1 <= cpu.physical_cores <= cpu.logical_cores
