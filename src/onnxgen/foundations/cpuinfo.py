"""This machine's processor and memory, as far as this process may use them."""

from __future__ import annotations

import math
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from onnxgen.foundations.cgroups import memory_limit
from onnxgen.foundations.cpu_facts import CacheInfo, CpuInfo, normal_architecture

__all__ = ["CacheInfo", "CpuInfo", "MemoryInfo", "default_threads", "detect_cpu", "detect_memory"]


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Main memory.

    Attributes:
        total_bytes: What the machine, or the container's limit, has; None if unknown.
        available_bytes: What can still be had without swapping; None if unknown.
    """

    total_bytes: int | None
    available_bytes: int | None


def detect_cpu() -> CpuInfo:
    """Describe the processor. Costs a few milliseconds; nothing is kept."""
    if sys.platform == "linux":
        from onnxgen.foundations.cpu_linux import read_linux

        return read_linux()
    if sys.platform == "darwin":
        from onnxgen.foundations.cpu_macos import read_macos

        return read_macos()
    if sys.platform == "win32":
        from onnxgen.foundations.cpu_windows import read_windows

        return read_windows()
    cores = os.cpu_count() or 1
    return CpuInfo(platform.processor(), "", normal_architecture(platform.machine()), cores, cores)


def default_threads(cpu: CpuInfo | None = None) -> int:
    """Threads for one operator when nobody says: a thread per physical core, within the container's limit.

    Args:
        cpu: The processor; None looks at this machine.
    """
    cpu = cpu or detect_cpu()
    quota = cpu.physical_cores if cpu.quota_cores is None else math.ceil(cpu.quota_cores)
    return max(1, min(cpu.physical_cores, quota))


def detect_memory(root: Path = Path("/")) -> MemoryInfo:
    """Describe the memory.

    Args:
        root: Where ``proc`` and ``sys`` lie on Linux; another folder for tests.
    """
    if sys.platform == "darwin":
        return _macos_memory()
    if sys.platform == "win32":
        return _windows_memory()
    return _linux_memory(root)


def _linux_memory(root: Path) -> MemoryInfo:
    try:
        lines = (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return MemoryInfo(None, None)
    kib = {
        name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.strip()
    }
    total, available = (
        int(kib[name]) * 1024 if kib.get(name, "").isdecimal() else None
        for name in ("MemTotal", "MemAvailable")
    )
    limit = memory_limit(root)
    if limit is None:
        return MemoryInfo(total, available)
    most, left = limit
    return MemoryInfo(
        most if total is None else min(total, most), left if available is None else min(available, left)
    )


def _macos_memory() -> MemoryInfo:
    from onnxgen.foundations.cpu_macos import number, system_sysctl

    total, page = number(system_sysctl, "hw.memsize"), number(system_sysctl, "hw.pagesize")
    names = ("vm.page_free_count", "vm.page_speculative_count", "vm.page_purgeable_count")
    free = sum(number(system_sysctl, name) for name in names) * page
    return MemoryInfo(total or None, free or None)


def _windows_memory() -> MemoryInfo:
    import ctypes

    class _Status(ctypes.Structure):
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            *((name, ctypes.c_uint64) for name in ("total", "available", "a", "b", "c", "d", "e")),
        )

    status = _Status()
    status.length = ctypes.sizeof(status)
    kernel32 = ctypes.WinDLL("kernel32")  # pyright: ignore
    if not kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return MemoryInfo(None, None)
    return MemoryInfo(int(status.total), int(status.available))
