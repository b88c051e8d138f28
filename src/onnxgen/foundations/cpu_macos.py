"""The processor as macOS describes it through ``sysctl``."""

from __future__ import annotations

import platform
from collections.abc import Callable

from onnxgen.foundations.cpu_facts import CacheInfo, CpuInfo, known_features, normal_architecture

Sysctl = Callable[[str], bytes | None]
"""The raw value of a name, or None where there is none."""

_ARM_FEATURES = {
    "hw.optional.neon": "neon",
    "hw.optional.AdvSIMD": "neon",
    "hw.optional.arm.FEAT_DotProd": "dotprod",
    "hw.optional.arm.FEAT_I8MM": "i8mm",
    "hw.optional.arm.FEAT_BF16": "bf16",
    "hw.optional.arm.FEAT_FP16": "fp16",
}
_CACHES = (
    ("hw.l1dcachesize", 1, "data"),
    ("hw.l1icachesize", 1, "instruction"),
    ("hw.l2cachesize", 2, "unified"),
    ("hw.l3cachesize", 3, "unified"),
)


def read_macos(sysctl: Sysctl | None = None) -> CpuInfo:
    """Describe the processor; of two kinds of cores, the fast ones count as physical cores.

    Args:
        sysctl: Reads a value; None asks the system.
    """
    sysctl = sysctl or system_sysctl
    words = f"{_word(sysctl, 'machdep.cpu.features')} {_word(sysctl, 'machdep.cpu.leaf7_features')}".split()
    arm = {ours for name, ours in _ARM_FEATURES.items() if number(sysctl, name)}
    logical = number(sysctl, "hw.logicalcpu") or 1
    caches = ((number(sysctl, name), level, kind) for name, level, kind in _CACHES)
    brand = _word(sysctl, "machdep.cpu.brand_string")
    return CpuInfo(
        model_name=brand,
        vendor=_word(sysctl, "machdep.cpu.vendor") or ("Apple" if brand.startswith("Apple") else ""),
        architecture=normal_architecture(platform.machine()),
        logical_cores=logical,
        physical_cores=number(sysctl, "hw.perflevel0.physicalcpu")
        or number(sysctl, "hw.physicalcpu")
        or logical,
        caches=tuple(CacheInfo(level, kind, size) for size, level, kind in caches if size),
        features=known_features(words) | arm,
    )


def number(sysctl: Sysctl, name: str) -> int:
    """A value that is a number of 4 or 8 bytes; 0 where there is none."""
    raw = sysctl(name)
    return int.from_bytes(raw, "little") if raw is not None and len(raw) in (4, 8) else 0


def system_sysctl(name: str) -> bytes | None:
    """Ask the system's library."""
    import ctypes

    library = ctypes.CDLL(None)
    size = ctypes.c_size_t(0)
    if library.sysctlbyname(name.encode(), None, ctypes.byref(size), None, 0) != 0:
        return None
    value = ctypes.create_string_buffer(size.value)
    if library.sysctlbyname(name.encode(), value, ctypes.byref(size), None, 0) != 0:
        return None
    return value.raw[: size.value]


def _word(sysctl: Sysctl, name: str) -> str:
    return (sysctl(name) or b"").rstrip(b"\0").decode("utf-8", "replace").strip()
