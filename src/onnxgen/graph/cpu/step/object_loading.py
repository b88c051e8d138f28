"""Object files into this process: their machine code at an address."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _engine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def load_object(code: bytes, symbol: str) -> int:
    """Load a relocatable object file for this process's lifetime; returns the symbol's address."""
    from llvmlite import binding

    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return int(engine.get_function_address(symbol))
