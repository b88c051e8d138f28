"""How much memory a process has, as the system sees it."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path


def resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """Memory of this process in RAM now; None where the system does not tell."""
    return _field(status, "VmRSS")


def resident_bytes_of(pid: int | None) -> int | None:
    """Memory of another process in RAM now; None where there is none, or the system does not tell."""
    return None if pid is None else resident_bytes(Path(f"/proc/{pid}/status"))


def growth_bytes(before: int | None, after: int | None) -> int | None:
    """What came to a process between two measurements, if there were both; what went is none of it."""
    return None if before is None or after is None else max(0, after - before)


def peak_resident_bytes(status: Path = Path("/proc/self/status")) -> int | None:
    """The most memory that this process ever had in RAM; None where the system does not tell."""
    peak = _field(status, "VmHWM")
    if peak is not None or sys.platform == "win32":
        return peak
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024


def give_back_memory() -> None:
    """Let go of what nobody uses any more, after something large came or was dropped.

    Takes a moment in which threads stand still. Later collections of garbage look only at what came after it, so that
    threads do not stand still for a tenth of a second each time that there is much that is new.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":
        try:
            trim = ctypes.CDLL(None).malloc_trim
        except (OSError, AttributeError):  # another C library
            return
        trim(0)


def _field(status: Path, name: str) -> int | None:
    try:
        lines = status.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = next((line for line in lines if line.startswith(f"{name}:")), None)
    return None if found is None else int(found.split()[1]) * 1024
