"""What compiled code is made of: a digest of a module's source and of all that it imports, found without importing any of it."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path

_PACKAGE = "onnxgen"
_ROOT = Path(__file__).parents[2]

_SHAPES_CODE = ("onnxgen.graph.cpu", "onnxgen.foundations")
"""Packages whose modules may change what is compiled; errors, say, do not."""

# Parsing a hundred files would take longer than loading what was compiled from them.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>onnxgen[\w.]*)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*)"
    r"|import[ \t]+(?P<modules>onnxgen[^\n]*))",
    re.MULTILINE,
)


@cache
def source_digest(module: str) -> str:
    """A digest of the source of a module of ours and of those that it imports, directly or through others.

    Args:
        module: Its full name; the digest of one that has no source here is that of its name.
    """
    found, waiting = {module}, [module]
    while waiting:
        new = imported_modules(waiting.pop()) - found
        found |= new
        waiting += new
    digest = sha256()
    for name in sorted(found):
        digest.update(name.encode() + b"\0" + sha256((_text(name) or "").encode()).digest())
    return digest.hexdigest()


@cache
def imported_modules(module: str) -> frozenset[str]:
    """Modules that may shape code and that a module's source imports, at its top or inside functions."""
    names: set[str] = set()
    for match in _IMPORT.finditer(_text(module) or ""):
        source = match["source"]
        if source:
            names |= {source, *(f"{source}.{name}" for name in re.findall(r"\w+", match["names"]))}
        else:
            names |= set(re.findall(r"onnxgen[\w.]*", match["modules"]))
    return frozenset(name for name in names if _shapes_code(name) and _text(name) is not None)


def _shapes_code(module: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in _SHAPES_CODE)


@cache
def _text(module: str) -> str | None:
    package, *steps = module.split(".")
    if package != _PACKAGE:
        return None
    place = _ROOT.joinpath(*steps)
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            continue
    return None
