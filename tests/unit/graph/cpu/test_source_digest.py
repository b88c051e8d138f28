import ast
from pathlib import Path

import onnxgen
from onnxgen.graph.cpu import source_digest as digests
from onnxgen.graph.cpu.source_digest import imported_modules, source_digest

_ROOT = Path(onnxgen.__file__).parent


def _name(path):
    return ".".join(("onnxgen", *path.relative_to(_ROOT).with_suffix("").parts)).removesuffix(".__init__")


def _parsed(path):
    """What the parser says that a file imports of the packages that shape code."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_import_is_found():
    modules = {_name(path): path for path in _ROOT.rglob("*.py")}
    looked_at = 0
    for module, path in modules.items():
        if not module.startswith(("onnxgen.graph.cpu", "onnxgen.foundations")):
            continue
        wanted = {
            name
            for name in _parsed(path)
            if name in modules and name.startswith(("onnxgen.graph.cpu", "onnxgen.foundations"))
        }
        assert wanted <= imported_modules(module), module
        looked_at += len(wanted)
    assert looked_at > 200


def _digest(monkeypatch, module, **changes):
    original = digests._text.__wrapped__
    monkeypatch.setattr(digests, "_text", lambda name: changes.get(name.rpartition(".")[2], original(name)))
    source_digest.cache_clear()
    imported_modules.cache_clear()
    try:
        return source_digest(module)
    finally:
        monkeypatch.undo()
        source_digest.cache_clear()
        imported_modules.cache_clear()


def test_a_change_counts_where_it_is_imported_and_nowhere_else(monkeypatch):
    walk, halves = (f"onnxgen.graph.cpu.compiled.{name}" for name in ("walk", "halves"))
    change = {"atomics": "from onnxgen.graph.cpu.compiled.primitives import I64\n"}
    assert _digest(monkeypatch, walk) != _digest(monkeypatch, walk, **change)
    assert _digest(monkeypatch, halves) == _digest(monkeypatch, halves, **change)
    deep = {"cpu_facts": ""}
    assert _digest(monkeypatch, walk) != _digest(monkeypatch, walk, **deep)


def test_modules_of_others_have_a_digest_too():
    assert source_digest("somewhere.else") != source_digest("somewhere.other")
