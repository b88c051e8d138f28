"""All that compiled code depends on, as one name."""

from __future__ import annotations

import os
import sys
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu.isa import ISA_VARIABLE
from onnxgen.graph.cpu.source_digest import source_digest
from onnxgen.graph.cpu.step.kernel import COMPILED_PACKAGE, StepKernel

_COMPILERS = ("numba", "llvmlite", "numpy")

_ELSEWHERE = (
    "NUMBA_CACHE_DIR",
    "NUMBA_NUM_THREADS",
    "NUMBA_THREADING_LAYER",
    "NUMBA_THREADING_LAYER_PRIORITY",
)
"""Variables of Numba that leave the code as it is."""


def code_key(kernel: StepKernel) -> str:
    """A name for the code of a kernel: another one whenever the code may be another.

    In it are the kernel's parameters, the source of its module and of all that this imports, the compilers' and Python's
    versions, every feature of the processor (two machines of one model may differ in what their hosts let through), and
    the environment variables that say how to compile.
    """
    sources = [
        source_digest(f"{COMPILED_PACKAGE}.{module}")
        for module in (kernel.factory.partition(":")[0], "kernel")
    ]
    facts = (kernel.factory, kernel.parameters, kernel.gives_value, sources, _surroundings())
    return sha256(repr(facts).encode()).hexdigest()[:32]


@cache
def _surroundings() -> tuple[object, ...]:
    variables = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name == ISA_VARIABLE or (name.startswith("NUMBA_") and name not in _ELSEWHERE)
    )
    versions = [_version(package) for package in _COMPILERS]
    return sys.implementation.cache_tag, sys.platform, versions, _instructions(), variables


def _instructions() -> str:
    known = detect_cpu().instructions
    if known:
        return known
    # Here LLVM loads the code, too.
    from llvmlite import binding

    return f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"


def _version(package: str) -> str:
    """What tells releases apart; reading it from the package's file spares a slow import."""
    found = find_spec(package)
    for place in found.submodule_search_locations or () if found else ():
        for name in ("_version.py", "version.py"):
            file = Path(place) / name
            if file.exists():
                return sha256(file.read_bytes()).hexdigest()
    from importlib.metadata import version

    return version(package)
