"""Instruction sets that kernels are written for, and the one that this process uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from functools import cache

from onnxgen.errors import ConfigError
from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.foundations.suggest import did_you_mean

ISA_VARIABLE = "ONNXGEN_ISA"
"""Environment variable that forces an instruction set: a value of `Isa`, never one that the processor lacks."""


class Isa(Enum):
    """What integer dot products, multiply-adds and float16 are made of; best first.

    Attributes:
        AVX512_VNNI: 512-bit vectors, ``vpdpbusd`` and ``vpdpwssd``.
        AVX512: 512-bit vectors with byte and word arithmetic.
        AVX_VNNI: 256-bit vectors, ``vpdpbusd`` and ``vpdpwssd``.
        AVX2: 256-bit vectors, multiply-adds, float16 conversion.
        NEON_DOTPROD: 128-bit vectors, ``sdot``.
        GENERIC: Whatever LLVM makes of vectors: no multiply-add, no float16, no dot product is assumed.
    """

    AVX512_VNNI = "avx512_vnni"
    AVX512 = "avx512"
    AVX_VNNI = "avx_vnni"
    AVX2 = "avx2"
    NEON_DOTPROD = "neon_dotprod"
    GENERIC = "generic"

    def runs_on(self, features: frozenset[str]) -> bool:
        """Whether a processor with these features (of `CpuInfo`) can execute it."""
        return any(needed <= features for needed in _NEEDED[self])

    @property
    def llvm_cpu(self) -> str | None:
        """The oldest processor of LLVM that has it and nothing above; None to use whatever the host has.

        AVX_VNNI is None: its instructions have one encoding in processors with AVX-512 and another in those without.
        """
        return {Isa.AVX512: "skylake-avx512", Isa.AVX2: "haswell"}.get(self)


_AVX2 = frozenset({"avx2", "fma", "f16c"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}

_NEEDED: Mapping[Isa, tuple[frozenset[str], ...]] = {
    Isa.AVX512_VNNI: (_AVX512 | {"avx512vnni"},),
    Isa.AVX512: (_AVX512,),
    Isa.AVX_VNNI: (_AVX2 | {"avx_vnni"}, _AVX512 | {"avx512vnni"}),
    Isa.AVX2: (_AVX2,),
    Isa.NEON_DOTPROD: (frozenset({"neon", "dotprod"}),),
    Isa.GENERIC: (frozenset(),),
}


def chosen_isa(features: frozenset[str], forced: str | None = None) -> Isa:
    """The best instruction set of a processor, or the forced one.

    Args:
        features: Of `CpuInfo`.
        forced: A value of `Isa`; None or empty for the best.

    Raises:
        ConfigError: ``forced`` is no instruction set, or the processor does not have it.
    """
    possible = [isa for isa in Isa if isa.runs_on(features)]
    if not forced:
        return possible[0]
    names = [isa.value for isa in Isa]
    if forced.lower() not in names:
        raise ConfigError(
            f"{ISA_VARIABLE}={forced} is no instruction set; known are {', '.join(names)}"
            f"{did_you_mean(forced, names)}"
        )
    isa = Isa(forced.lower())
    if isa not in possible:
        raise ConfigError(
            f"{ISA_VARIABLE}={forced} asks for what this processor lacks; it has "
            f"{', '.join(each.value for each in possible)}"
        )
    return isa


@cache
def host_isa() -> Isa:
    """The instruction set of this process: this machine's best, or what ``ONNXGEN_ISA`` says."""
    return chosen_isa(detect_cpu().features, os.environ.get(ISA_VARIABLE))
