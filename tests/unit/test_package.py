import subprocess
import sys

import pytest

import onnxgen


def test_every_name_can_be_had_and_is_listed():
    for name in onnxgen.__all__:
        assert getattr(onnxgen, name) is getattr(onnxgen, name)
    assert set(onnxgen.__all__) <= set(dir(onnxgen))
    assert onnxgen.Generator.__module__ == "onnxgen.facade.generator"


def test_names_that_do_not_exist_do_not():
    with pytest.raises(AttributeError, match="no attribute 'Generater'"):
        _ = onnxgen.Generater


def test_importing_it_imports_nothing_heavy():
    heavy = "onnxruntime", "onnx", "onnx_ir", "numpy", "gguf", "tokenizers", "jinja2", "rich", "typer", "yaml"
    program = f"import sys, onnxgen; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_distribution():
    import importlib.metadata

    assert onnxgen.__version__ == importlib.metadata.version("onnxgen")
