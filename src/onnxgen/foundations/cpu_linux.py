"""The processor as Linux describes it in ``/proc`` and ``/sys``."""

from __future__ import annotations

import os
import platform
from collections.abc import Set as AbstractSet
from pathlib import Path

from onnxgen.foundations.cgroups import cpu_quota, system_text
from onnxgen.foundations.cpu_facts import CacheInfo, CpuInfo, known_features, normal_architecture

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_ARM_MAKERS = {
    "0x41": "Arm",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x51": "Qualcomm",
    "0x61": "Apple",
    "0x6d": "Microsoft",
    "0xc0": "Ampere",
}
# what compilers tune for, and, where a system is too old to know a new instruction's flag, the only sign of it
_MAKE = (
    *("vendor_id", "cpu family", "model", "stepping"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"),
)


def read_linux(root: Path = Path("/"), *, cpus: AbstractSet[int] | None = None) -> CpuInfo:
    """Describe the processor.

    Args:
        root: Where ``proc`` and ``sys`` lie; another folder for tests.
        cpus: Logical processors that the process may run on; None asks the system.
    """
    cpus = os.sched_getaffinity(0) if cpus is None else cpus  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    usable = frozenset(cpus)  # pyright: ignore[reportUnknownArgumentType]
    entries = _cpuinfo(root)
    first = entries[0] if entries else {}
    maker = first.get("CPU implementer", "").lower()
    flags = (first.get("flags") or first.get("Features") or "").split()
    return CpuInfo(
        model_name=first.get("model name") or _board(root) or first.get("cpu model", ""),
        vendor=first.get("vendor_id") or _ARM_MAKERS.get(maker, maker),
        architecture=normal_architecture(platform.machine()),
        logical_cores=len(usable),
        physical_cores=_physical_cores(root, usable, entries),
        quota_cores=cpu_quota(root),
        caches=_caches(root, min(usable, default=0)),
        features=known_features(flags),
        instructions=" ".join([*(first.get(name, "-") for name in _MAKE), *sorted(flags)]) if flags else "",
    )


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """One entry per logical processor, in the order of the file."""
    entries: list[dict[str, str]] = []
    for block in system_text(root / "proc/cpuinfo").split("\n\n"):
        pairs = (line.partition(":") for line in block.splitlines())
        entry = {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
        if "processor" in entry:
            entries.append(entry)
    return entries


def _physical_cores(root: Path, cpus: AbstractSet[int], entries: list[dict[str, str]]) -> int:
    siblings: set[str] = set()
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        shared = system_text(topology / "core_cpus_list") or system_text(topology / "thread_siblings_list")
        if shared:
            siblings.add(shared)
    if siblings:
        return len(siblings)
    cores = {
        (entry.get("physical id", "0"), entry["core id"])
        for entry in entries
        if entry["processor"].isdecimal() and int(entry["processor"]) in cpus and "core id" in entry
    }
    return len(cores) or len(cpus)


def _caches(root: Path, cpu: int) -> tuple[CacheInfo, ...]:
    caches: list[CacheInfo] = []
    for folder in sorted((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        level, size = system_text(folder / "level"), system_text(folder / "size")
        if level.isdecimal() and size[:-1].isdecimal() and size[-1:] in _UNITS:
            shared = system_text(folder / "shared_cpu_list")
            caches.append(
                CacheInfo(
                    level=int(level),
                    kind=system_text(folder / "type").lower(),
                    size_bytes=int(size[:-1]) * _UNITS[size[-1]],
                    shared_by=count_listed(shared) if shared else None,
                )
            )
    return tuple(caches)


def count_listed(text: str) -> int:
    """How many processors a list such as ``0-3,8`` names."""
    ends = (part.partition("-") for part in text.split(",") if part.strip())
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def _board(root: Path) -> str:
    return system_text(root / "proc/device-tree/model").rstrip("\0")
