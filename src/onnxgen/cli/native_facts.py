"""What the native kernels use on this machine: instructions, threads, the store of machine code, pages."""

from __future__ import annotations

import os
from pathlib import Path

from onnxgen.cli.facts import Facts
from onnxgen.errors import ConfigError


def native_facts(threads: int | None) -> Facts:
    """Facts about the native kernels; compiles and loads nothing.

    Args:
        threads: As configured; None for the default.
    """
    from onnxgen.foundations.cpuinfo import default_threads
    from onnxgen.graph.cpu.huge_pages import huge_page_policy
    from onnxgen.graph.cpu.step.code_store import default_store
    from onnxgen.graph.cpu.step.object_loading import links_itself

    folder = default_store().folder
    usage = folder.usage()
    return {
        **_instruction_facts(),
        "threads": threads or default_threads(),
        "threading": "threads of our own that walk a step together",
        "machine_code": "linked without a compiler" if links_itself() else "loaded by LLVM",
        "kernel_store": {
            "folder": str(folder.path),
            "writable": _is_writable(folder.path),
            "kernels": usage.num_entries,
            "size_bytes": usage.num_bytes,
        },
        "huge_pages": {
            "always": "yes, for all memory",
            "madvise": "yes, on request",
            "never": "no; 'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled' as root allows them",
            None: "not known",
        }.get(huge_page_policy(), "not known"),
    }


def _instruction_facts() -> Facts:
    from onnxgen.foundations.cpuinfo import detect_cpu
    from onnxgen.graph.cpu.isa import ISA_VARIABLE, Isa, chosen_isa

    features, forced = detect_cpu().features, os.environ.get(ISA_VARIABLE)
    try:
        chosen = chosen_isa(features, forced).value
    except ConfigError as cause:
        chosen = f"none: {cause}"
    return {
        "instruction_set": chosen,
        "forced_by": f"{ISA_VARIABLE}={forced}" if forced else None,
        "possible_instruction_sets": [isa.value for isa in Isa if isa.runs_on(features)],
    }


def _is_writable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)
