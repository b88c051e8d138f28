"""Machine code of kernels: compiled once, kept on disk, loaded by whoever needs it.

An entry is found by everything that the code depends on: the source of all compiled loops, the versions of Numba and LLVM,
the processor and the instruction set that was asked for. Files are written whole, so that processes that start together
at most compile the same thing twice; a damaged entry, or a place that cannot be written, costs a compilation.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.foundations.files import atomic_file
from onnxgen.foundations.runtime_config import default_cache_dir
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.object_loading import load_object

_log = logging.getLogger(__name__)

_COMPILED = "onnxgen.graph.cpu.compiled"

Watcher = Callable[[StepKernel], None]
"""Told of each kernel before it is compiled."""


class CodeStore:
    """Code of kernels under a folder. May be used from several threads.

    Args:
        folder: Where the files are; made when needed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._addresses: dict[tuple[StepKernel, bool], int] = {}
        self._lock = threading.RLock()
        self.watchers: list[Watcher] = []
        self.num_compiled = 0

    def address(self, kernel: StepKernel, *, gives_value: bool = False) -> int:
        """Where the kernel's machine code lies in this process; it stays there."""
        with self._lock:
            found = self._addresses.get((kernel, gives_value))
            if found is None:
                found = load_object(*self._code(kernel, gives_value))
                self._addresses[kernel, gives_value] = found
            return found

    def is_stored(self, kernel: StepKernel) -> bool:
        """Whether the kernel's code is on disk, so that it need not be compiled."""
        return self._path(kernel).exists()

    def _path(self, kernel: StepKernel) -> Path:
        facts = (kernel.factory, kernel.parameters, _surroundings())
        return self._folder / f"{sha256(repr(facts).encode()).hexdigest()[:32]}.o"

    def _code(self, kernel: StepKernel, gives_value: bool) -> tuple[bytes, str]:
        path = self._path(kernel)
        with contextlib.suppress(OSError, ValueError):
            head, _, code = path.read_bytes().partition(b"\n")
            facts = json.loads(head)
            if sha256(code).hexdigest() == facts["sha256"]:
                return code, facts["symbol"]
            _log.warning("the compiled kernel %s is damaged and is compiled anew", path)
        for watcher in self.watchers:
            watcher(kernel)
        self.num_compiled += 1
        code, symbol = _compile(kernel, gives_value)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            head = json.dumps({"kernel": kernel.name, "symbol": symbol, "sha256": sha256(code).hexdigest()})
            with atomic_file(path) as partial:
                partial.write_bytes(head.encode() + b"\n" + code)
        except OSError as cause:
            _log.debug("the code of %s cannot be kept: %s", kernel.name, cause)
        return code, symbol


def _compile(kernel: StepKernel, gives_value: bool) -> tuple[bytes, str]:
    from onnxgen.graph.cpu.compiled.kernel import object_code

    module, _, factory = kernel.factory.partition(":")
    function = getattr(import_module(f"{_COMPILED}.{module}"), factory)(**dict(kernel.parameters))
    return object_code(function, gives_value=gives_value)


@cache
def _surroundings() -> str:
    """All that the code depends on beside the kernel itself."""
    digest = sha256()
    for path in sorted((Path(__file__).parent.parent / "compiled").rglob("*.py")):
        digest.update(path.read_bytes())
    cpu = detect_cpu()
    facts = (
        [version(package) for package in ("numba", "llvmlite")],
        (cpu.architecture, cpu.model_name, sorted(cpu.features), os.environ.get("ONNXGEN_ISA", "")),
    )
    digest.update(repr(facts).encode())
    return digest.hexdigest()


@cache
def default_store() -> CodeStore:
    """The store of this process: in the user's cache, or where ``ONNXGEN_KERNEL_CACHE`` says."""
    place = os.environ.get("ONNXGEN_KERNEL_CACHE")
    return CodeStore(Path(place) if place else default_cache_dir() / "kernels")
