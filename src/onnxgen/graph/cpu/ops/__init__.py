"""Kernels by operator family: each module has a `KernelTable` named ``TABLE``.

A module knows its operators; it shares only helpers of `onnxgen.graph.cpu` with the others.
"""

from __future__ import annotations

import importlib
import pkgutil

from onnxgen.graph.cpu.registry import KernelTable


def all_kernels() -> KernelTable:
    """The kernels of every module of this package in one table."""
    modules = [importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return KernelTable(module.TABLE for module in modules)
