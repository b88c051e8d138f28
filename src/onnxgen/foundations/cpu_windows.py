"""The processor as Windows describes it, as far as its libraries say.

Windows has no list of instruction sets: newer ones than AVX-512F stay unknown here.
"""

from __future__ import annotations

import os
import platform
import struct
from typing import Any

from onnxgen.foundations.cpu_facts import CacheInfo, CpuInfo, normal_architecture

# numbers of IsProcessorFeaturePresent; every x86 processor with AVX2 also has FMA and F16C
_FEATURES = {
    19: ("neon",),
    38: ("sse4_2",),
    39: ("avx",),
    40: ("avx2", "fma", "f16c"),
    41: ("avx512f",),
    43: ("dotprod",),
}
_RECORD = struct.Struct("<QIxxxx16s")  # SYSTEM_LOGICAL_PROCESSOR_INFORMATION on 64 bits
_CACHE = struct.Struct("<BBHII")  # its CACHE_DESCRIPTOR
_CORE_RECORD, _CACHE_RECORD = 0, 2
_CACHE_KINDS = {0: "unified", 1: "instruction", 2: "data"}


def read_windows() -> CpuInfo:
    """Describe the processor."""
    kernel32 = _kernel32()
    mask = _affinity(kernel32)
    physical, caches = parse_records(_records(kernel32), mask)
    features = (names for code, names in _FEATURES.items() if kernel32.IsProcessorFeaturePresent(code))
    logical = mask.bit_count() or os.cpu_count() or 1
    return CpuInfo(
        model_name=_registry("ProcessorNameString") or platform.processor(),
        vendor=_registry("VendorIdentifier"),
        architecture=normal_architecture(platform.machine()),
        logical_cores=logical,
        physical_cores=physical or logical,
        caches=caches,
        features=frozenset(name for names in features for name in names),
    )


def parse_records(raw: bytes, mask: int) -> tuple[int, tuple[CacheInfo, ...]]:
    """Physical cores within an affinity mask, and caches of the first core in it.

    Args:
        raw: Records of ``GetLogicalProcessorInformation``.
        mask: Bit i set: the process may run on logical processor i.
    """
    physical = 0
    caches: list[CacheInfo] = []
    for processors, relation, union in _RECORD.iter_unpack(raw[: len(raw) // _RECORD.size * _RECORD.size]):
        if relation == _CORE_RECORD and processors & mask:
            physical += 1
        elif relation == _CACHE_RECORD and processors & mask & -mask:
            level, _, _, size, kind = _CACHE.unpack_from(union)
            caches.append(CacheInfo(level, _CACHE_KINDS.get(kind, "other"), size, processors.bit_count()))
    return physical, tuple(sorted(caches, key=lambda cache: cache.level))


def _kernel32() -> Any:
    import ctypes

    return ctypes.WinDLL("kernel32")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def _affinity(kernel32: Any) -> int:
    import ctypes

    process, system = ctypes.c_size_t(), ctypes.c_size_t()
    kernel32.GetCurrentProcess.restype = ctypes.c_void_p
    handle = ctypes.c_void_p(kernel32.GetCurrentProcess())
    kernel32.GetProcessAffinityMask(handle, ctypes.byref(process), ctypes.byref(system))
    return process.value


def _records(kernel32: Any) -> bytes:
    import ctypes

    size = ctypes.c_uint32(0)
    kernel32.GetLogicalProcessorInformation(None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    if not kernel32.GetLogicalProcessorInformation(buffer, ctypes.byref(size)):
        return b""
    return buffer.raw[: size.value]


def _registry(name: str) -> str:
    import importlib

    winreg: Any = importlib.import_module("winreg")
    try:
        with winreg.OpenKey(
            winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        ) as key:
            return str(winreg.QueryValueEx(key, name)[0]).strip()
    except OSError:
        return ""
