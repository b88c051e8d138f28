"""Limits that a container sets on this process, from Linux control groups (versions 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

# version 1 says "no limit" with a number near the largest one
_NO_LIMIT = 1 << 60


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Processor time allowed, in cores; None for no limit.

    Args:
        root: Where ``proc`` and ``sys`` lie; another folder for tests.
    """
    quotas: list[float] = []
    for folder in _folders(root, "cpu"):
        new = system_text(folder / "cpu.max").split()
        old = [system_text(folder / "cpu.cfs_quota_us"), system_text(folder / "cpu.cfs_period_us")]
        quota, period = (new if len(new) == 2 else old)[:2]
        if quota.isdecimal() and period.isdecimal() and int(period) > 0 and int(quota) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/")) -> tuple[int, int] | None:
    """The smallest memory limit and what is left of it, in bytes; None for no limit.

    Pages of files that the kernel can drop count as left.
    """
    found: list[tuple[int, int]] = []
    for folder in _folders(root, "memory"):
        limit = system_text(folder / "memory.max") or system_text(folder / "memory.limit_in_bytes")
        used = system_text(folder / "memory.current") or system_text(folder / "memory.usage_in_bytes")
        if limit.isdecimal() and used.isdecimal() and int(limit) < _NO_LIMIT:
            held = max(0, int(used) - _droppable(folder))
            found.append((int(limit), max(0, int(limit) - held)))
    return min(found, default=None, key=lambda pair: pair[1])


def _droppable(folder: Path) -> int:
    for line in system_text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdecimal():
            return int(value)
    return 0


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """The group of this process and those above it, for every hierarchy with the controller."""
    paths = _own_paths(root)
    for line in system_text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup" and controller in kind[2].split(","):
            path = paths.get(controller)
        elif kind[0] == "cgroup2":
            path = paths.get("")
        else:
            continue
        mount_root, mount = fields[3], root / fields[4].lstrip("/")
        # seen from inside a container the group may lie outside of what is mounted
        inside = path is not None and path.startswith(mount_root)
        relative = Path((path or "")[len(mount_root) :].lstrip("/")) if inside else Path()
        for step in (relative, *relative.parents):
            yield mount / step


def _own_paths(root: Path) -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in system_text(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def system_text(path: Path) -> str:
    """Text of a file that the system keeps, without white space around it; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
