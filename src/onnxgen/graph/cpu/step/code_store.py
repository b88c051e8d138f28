"""Machine code of kernels: compiled once, kept on disk, loaded by whoever needs it.

An entry is found by everything that the code depends on (`code_key`). Files are written whole, so that processes that start
together at most compile the same thing twice; a damaged entry, or a place that cannot be written, costs a compilation.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from onnxgen.errors import MachineCodeError
from onnxgen.foundations.after_fork import in_forked_children
from onnxgen.foundations.progress import Progress, current_progress
from onnxgen.foundations.runtime_config import default_cache_dir
from onnxgen.graph.cpu.step.code_folder import Code, CodeFolder
from onnxgen.graph.cpu.step.code_key import code_key
from onnxgen.graph.cpu.step.compiling import compile_in_processes, compile_kernel
from onnxgen.graph.cpu.step.kernel import StepKernel
from onnxgen.graph.cpu.step.object_loading import load_object
from onnxgen.graph.cpu.step.walkers import WALKERS

_FEW = 2
"""So many kernels are compiled in this process before another has started."""

STORE_VARIABLE = "ONNXGEN_KERNEL_CACHE"
"""Environment variable: another folder for the machine code of kernels."""

Watcher = Callable[[StepKernel], None]
"""Told of each kernel before it is compiled in this process."""


class CodeStore:
    """Code of kernels under a folder. May be used from several threads.

    Args:
        folder: Where the files are; made when needed.

    Attributes:
        folder: The files.
        watchers: Called when this process has to wait for a compilation.
        num_compiled: Kernels that had to be compiled, here or in other processes on behalf of this one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = CodeFolder(folder)
        self.watchers: list[Watcher] = []
        self.num_compiled = 0
        self._addresses: dict[StepKernel, int] = {}
        self._lock = threading.RLock()
        in_forked_children(self, CodeStore.renew_lock)

    def address(self, kernel: StepKernel) -> int:
        """Where the kernel's machine code lies in this process; it stays there."""
        with self._lock:
            found = self._addresses.get(kernel)
            if found is None:
                found = self._addresses[kernel] = self._load(kernel)
            return found

    def addresses(self, kernels: Sequence[StepKernel]) -> list[int]:
        """The address of each; as `prepare` where so many are missing that other processes are worth starting."""
        with self._lock:
            new = {kernel for kernel in kernels if kernel not in self._addresses}
            if len(new) > _FEW and sum(not self.is_stored(kernel) for kernel in new) > _FEW:
                self.prepare(kernels)
            return [self.address(kernel) for kernel in kernels]

    def is_stored(self, kernel: StepKernel) -> bool:
        """Whether the kernel's code is on disk, so that it need not be compiled."""
        return self.folder.holds(code_key(kernel))

    def prepare(
        self,
        kernels: Iterable[StepKernel],
        *,
        progress: Progress | None = None,
        processes: int | None = None,
    ) -> None:
        """Compile what is missing of some kernels, several at once, so that their addresses are had at once.

        Args:
            kernels: May repeat; the functions that walk steps come along.
            progress: Told of each kernel, or nothing when nothing is missing; None takes that of the caller's thread.
            processes: How many to start at most; None takes as many as there are cores.
        """
        with self._lock:
            missing = [
                kernel
                for kernel in dict.fromkeys([*WALKERS, *kernels])
                if kernel not in self._addresses and not self.is_stored(kernel)
            ]
            if not missing:
                return
            with (progress or current_progress()).start(
                "compiling kernels", total=len(missing), unit="kernels"
            ) as task:
                left = dict.fromkeys(missing)
                for kernel, code in compile_in_processes(missing, processes=processes, is_had=self.is_stored):
                    self._addresses[kernel] = self._keep(kernel, code)
                    del left[kernel]
                    task.advance(1)
                for kernel in left:
                    self._addresses[kernel] = self._load(kernel)
                    task.advance(1)
            self.folder.prune()

    def _load(self, kernel: StepKernel) -> int:
        stored = self.folder.read(code_key(kernel))
        if stored is not None:
            try:
                return load_object(stored.content, stored.symbol)
            except MachineCodeError:
                pass  # as good as damaged
        for watcher in self.watchers:
            watcher(kernel)
        return self._keep(kernel, compile_kernel(kernel))

    def _keep(self, kernel: StepKernel, code: Code) -> int:
        self.num_compiled += 1
        self.folder.write(code_key(kernel), code, name=kernel.name)
        return load_object(code.content, code.symbol)

    def renew_lock(self) -> None:
        """After a fork: the lock may be held by a thread that does not exist here."""
        self._lock = threading.RLock()


@cache
def default_store() -> CodeStore:
    """The store of this process: in the user's cache, or where ``ONNXGEN_KERNEL_CACHE`` says."""
    place = os.environ.get(STORE_VARIABLE)
    return CodeStore(Path(place) if place else default_cache_dir() / "kernels")
