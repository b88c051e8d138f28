"""Object files into this process: their machine code at an address.

Where programs are ELF files we link them ourselves, which takes less than a millisecond and no memory beside the code;
elsewhere, and for files of a form that we do not know, LLVM does (60 ms and 54 MB the first time).
"""

from __future__ import annotations

import logging
import platform
import sys
from functools import cache
from typing import Any

from onnxgen.foundations.cpu_facts import normal_architecture
from onnxgen.graph.cpu.step.elf_object import Machine, UnknownFormError, read_elf
from onnxgen.graph.cpu.step.executable_memory import library_function, map_code
from onnxgen.graph.cpu.step.linking import Image

_log = logging.getLogger(__name__)


def load_object(code: bytes, symbol: str) -> int:
    """Load a relocatable object file for this process's lifetime; returns the symbol's address.

    Raises:
        MachineCodeError: The file is damaged, or does not hold the symbol.
        OSError: There is no memory for it.
    """
    if not links_itself():
        return load_with_llvm(code, symbol)
    try:
        return link(code, symbol)
    except UnknownFormError as cause:
        _log.debug("LLVM loads %s: %s", symbol, cause)
    except PermissionError as cause:
        _log.debug("LLVM loads %s, which may find memory where we do not: %s", symbol, cause)
    return load_with_llvm(code, symbol)


def links_itself() -> bool:
    """Whether object files are linked without LLVM in this process."""
    return sys.platform == "linux" and host_machine() is not None


@cache
def host_machine() -> Machine | None:
    """The processor of this process, if we know its relocations."""
    names = {"x86_64": Machine.X86_64, "arm64": Machine.AARCH64}
    return names.get(normal_architecture(platform.machine()))


def link(code: bytes, symbol: str) -> int:
    """Load a file with our own linker; as `load_object`.

    Raises:
        UnknownFormError: The file may be good, but has what this linker does not know.
    """
    elf = read_elf(code)
    if elf.machine is not host_machine():
        raise UnknownFormError(f"the object file is for {elf.machine.name}")
    image = Image(elf, library_function)
    offset = image.offset(symbol)
    return map_code(image.num_bytes, image.bound) + offset


def load_with_llvm(code: bytes, symbol: str) -> int:
    """Load a file with LLVM; as `load_object`, but LLVM ends the process when it dislikes a file."""
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return int(engine.get_function_address(symbol))


@cache
def _engine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
