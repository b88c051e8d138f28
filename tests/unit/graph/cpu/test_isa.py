"""The instruction set of a process."""

from __future__ import annotations

import pytest

from onnxgen.errors import ConfigError
from onnxgen.graph.cpu.isa import Isa, chosen_isa, host_isa

AVX2 = frozenset({"avx", "avx2", "fma", "f16c"})
SKYLAKE = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}


@pytest.mark.parametrize(
    ("features", "isa"),
    [
        (frozenset(), Isa.GENERIC),
        (frozenset({"avx2", "f16c"}), Isa.GENERIC),
        (AVX2, Isa.AVX2),
        (AVX2 | {"avx_vnni"}, Isa.AVX_VNNI),
        (SKYLAKE, Isa.AVX512),
        (SKYLAKE | {"avx512vnni"}, Isa.AVX512_VNNI),
        (frozenset({"neon"}), Isa.GENERIC),
        (frozenset({"neon", "dotprod"}), Isa.NEON_DOTPROD),
    ],
)
def test_the_best_that_a_processor_has(features, isa):
    assert chosen_isa(features) is isa


def test_less_may_be_forced():
    assert chosen_isa(SKYLAKE, "avx2") is Isa.AVX2
    assert chosen_isa(SKYLAKE, "GENERIC") is Isa.GENERIC
    assert chosen_isa(SKYLAKE, "") is Isa.AVX512


def test_more_is_refused():
    with pytest.raises(
        ConfigError, match="avx512_vnni asks for what this processor lacks; it has avx2, generic"
    ):
        chosen_isa(AVX2, "avx512_vnni")


def test_an_unknown_name_is_an_error():
    with pytest.raises(ConfigError, match=r"ONNXGEN_ISA=axv2 is no instruction set.*did you mean 'avx2'"):
        chosen_isa(AVX2, "axv2")


def test_the_environment_forces(monkeypatch):
    monkeypatch.setenv("ONNXGEN_ISA", "generic")
    host_isa.cache_clear()
    assert host_isa() is Isa.GENERIC
    monkeypatch.delenv("ONNXGEN_ISA")
    host_isa.cache_clear()
