"""What this machine is: processor, cores, memory. What the system does not tell is left out."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from onnxgen.cli.facts import Facts

# what decides which kernels run fast
_FEATURES = (
    *("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16"),
    *("avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimddp", "asimdhp", "i8mm", "bf16", "sve", "sve2"),
)


def machine_facts() -> Facts:
    """Processor, cores and memory."""
    cpu = _cpuinfo()
    flags = set(_values(cpu, "flags", "Features"))
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": next(iter(_texts(cpu, "model name", "Model")), platform.processor() or None),
        "cpu_features": [name for name in _FEATURES if name in flags],
        "physical_cores": _physical_cores(cpu),
        "logical_cores": os.cpu_count(),
        "usable_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "cpu_quota": _cpu_quota(),
        "memory_bytes": _meminfo("MemTotal"),
        "available_memory_bytes": _meminfo("MemAvailable"),
        "memory_limit_bytes": _number(Path("/sys/fs/cgroup/memory.max")),
    }


def _cpuinfo() -> list[tuple[str, str]]:
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
        return [
            (key.strip(), value.strip()) for key, colon, value in (x.partition(":") for x in lines) if colon
        ]
    return []


def _texts(cpu: list[tuple[str, str]], *keys: str) -> Iterable[str]:
    return (value for key, value in cpu if key in keys)


def _values(cpu: list[tuple[str, str]], *keys: str) -> list[str]:
    return next(iter(_texts(cpu, *keys)), "").split()


def _physical_cores(cpu: list[tuple[str, str]]) -> int | None:
    sockets = list(_texts(cpu, "physical id"))
    cores = list(_texts(cpu, "core id"))
    return len(set(zip(sockets, cores, strict=True))) if cores and len(cores) == len(sockets) else None


def _cpu_quota() -> float | None:
    """Cores' worth of time that a container may use."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("utf-8").split()
        return int(quota) / int(period)
    return None


def _meminfo(key: str) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text("utf-8").splitlines():
            if line.startswith(f"{key}:"):
                return int(line.split()[1]) * 1024
    return None


def _number(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text("utf-8"))
    return None
