"""Packages that import what they offer when it is first asked for (PEP 562), so that importing them is quick."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, names_by_module: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a package.

    No name may be that of a module of the package: whoever imports the module first would replace it.

    Args:
        package: Its full name.
        names_by_module: Module, relative to the package, to the names that it has for it.
    """
    modules = {name: f"{package}.{module}" for module, names in names_by_module.items() for name in names}

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
