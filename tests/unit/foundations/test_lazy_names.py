import subprocess
import sys

import pytest

from onnxgen.foundations.lazy_names import lazy_names


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "lazily"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text("THING = object()\n")
    monkeypatch.syspath_prepend(tmp_path)
    import lazily  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(lazily, "__getattr__", lazy_names("lazily", {"part": ("THING",)}), raising=False)
    yield lazily
    for name in ("lazily", "lazily.part"):
        sys.modules.pop(name, None)


def test_a_module_is_imported_when_its_name_is_asked_for(package):
    assert "lazily.part" not in sys.modules
    assert package.THING is sys.modules["lazily.part"].THING
    assert "THING" in vars(package)  # and not looked for again


def test_other_names_are_missing(package):
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'THIGN'"):
        _ = package.THIGN


@pytest.mark.parametrize("package", ["onnxgen.builder", "onnxgen.metadata"])
def test_packages_give_what_they_list(package):
    program = f"import sys, {package} as p; print('numpy' in sys.modules, all(map(p.__getattr__, p.__all__)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
