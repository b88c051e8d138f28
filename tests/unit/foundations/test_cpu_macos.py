"""The processor from ``sysctl``, on made-up Macs."""

import sys

import pytest

from onnxgen.foundations.cpu_facts import CacheInfo
from onnxgen.foundations.cpu_macos import read_macos, system_sysctl


def number(value, size=4):
    return value.to_bytes(size, "little")


M = {
    "machdep.cpu.brand_string": b"Apple M9\0",
    "hw.logicalcpu": number(10),
    "hw.physicalcpu": number(10),
    "hw.perflevel0.physicalcpu": number(6),
    "hw.l1dcachesize": number(65536, 8),
    "hw.l2cachesize": number(4 << 20, 8),
    "hw.optional.AdvSIMD": number(1),
    "hw.optional.arm.FEAT_DotProd": number(1),
    "hw.optional.arm.FEAT_I8MM": number(1),
    "hw.optional.arm.FEAT_BF16": number(0),
}
INTEL = {
    "machdep.cpu.brand_string": b"Intel(R) Made-up\0",
    "machdep.cpu.vendor": b"GenuineIntel\0",
    "machdep.cpu.features": b"FPU SSE4.2 FMA AVX1.0 F16C\0",
    "machdep.cpu.leaf7_features": b"AVX2 AVX512F AVX512VL\0",
    "hw.logicalcpu": number(8),
    "hw.physicalcpu": number(4),
}


def test_the_fast_cores_count():
    cpu = read_macos(M.get)
    assert (cpu.model_name, cpu.vendor) == ("Apple M9", "Apple")
    assert (cpu.logical_cores, cpu.physical_cores) == (10, 6)
    assert cpu.features == {"neon", "dotprod", "i8mm"}
    assert cpu.caches == (CacheInfo(1, "data", 65536), CacheInfo(2, "unified", 4 << 20))


def test_an_intel_mac():
    cpu = read_macos(INTEL.get)
    assert (cpu.vendor, cpu.logical_cores, cpu.physical_cores) == ("GenuineIntel", 8, 4)
    assert cpu.features == {"sse4_2", "fma", "avx", "f16c", "avx2", "avx512f", "avx512vl"}


def test_a_mac_that_says_nothing():
    cpu = read_macos(lambda name: None)
    assert (cpu.model_name, cpu.logical_cores, cpu.physical_cores) == ("", 1, 1)


@pytest.mark.skipif(sys.platform != "darwin", reason="asks the system")
def test_this_machine():
    assert system_sysctl("no.such.name") is None
    assert read_macos().physical_cores >= 1
