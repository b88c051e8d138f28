"""What is said of a processor: `CpuInfo`, and the names of features that kernels ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

FEATURES: Mapping[str, str] = MappingProxyType(
    {
        # x86: the name in Linux, and in macOS where it differs
        **{
            name: name for name in ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq")
        },
        **{name: name for name in ("avx512vl", "avx512vbmi", "avx_vnni", "amx_tile", "amx_int8", "amx_bf16")},
        "avx512_vnni": "avx512vnni",
        "avx512_bf16": "avx512bf16",
        "avx512_fp16": "avx512fp16",
        "sse4.2": "sse4_2",
        "avx1.0": "avx",
        # Arm, as Linux names them
        "neon": "neon",
        "asimd": "neon",
        "asimdhp": "fp16",
        "asimddp": "dotprod",
        "i8mm": "i8mm",
        "bf16": "bf16",
        "sve": "sve",
        "sve2": "sve2",
    }
)
"""Feature names of operating systems to ours."""


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """One cache of the first core.

    Attributes:
        level: 1, 2, 3, ...
        kind: ``data``, ``instruction`` or ``unified``.
        size_bytes: Its size.
        shared_by: Logical processors that share it; None if unknown.
    """

    level: int
    kind: str
    size_bytes: int
    shared_by: int | None = None


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """The processor, as far as this process may use it.

    Attributes:
        model_name: As people know it; empty if unknown.
        vendor: Who made it; empty if unknown.
        architecture: ``x86_64``, ``arm64``, or what the system calls it.
        logical_cores: Logical processors that this process may run on (its affinity).
        physical_cores: Physical cores among them.
        quota_cores: Processor time that the container's limit allows, in cores; None for no limit.
        caches: Caches of the first core.
        features: Instruction sets that kernels care for, by our names (the values of `FEATURES`).
        instructions: All that the system says about what the processor executes, as it says it: code that was compiled for one
            such text runs wherever it is the same. Empty where the system does not say.
    """

    model_name: str
    vendor: str
    architecture: str
    logical_cores: int
    physical_cores: int
    quota_cores: float | None = None
    caches: tuple[CacheInfo, ...] = ()
    features: frozenset[str] = frozenset()
    instructions: str = ""


def known_features(names: Iterable[str]) -> frozenset[str]:
    """Our names of those features that we have a name for."""
    return frozenset(FEATURES[name] for name in map(str.lower, names) if name in FEATURES)


def normal_architecture(machine: str) -> str:
    """One name for the many that systems have."""
    name = machine.lower()
    return {"amd64": "x86_64", "x64": "x86_64", "aarch64": "arm64"}.get(name, name)
