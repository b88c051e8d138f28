import subprocess
import sys
from pathlib import Path

import pytest

from onnxgen.backends import backend_names, load_backend
from onnxgen.backends.base import DecoderModel
from onnxgen.errors import ConfigError, ModelFileError
from onnxgen.foundations.runtime_config import RuntimeConfig

MODEL = DecoderModel(Path("nowhere/model.onnx"), {}, {}, num_layers=1, vocab_size=8, context_length=8)


@pytest.mark.parametrize("name", ["native", "orr"])
def test_an_unknown_backend_is_refused_with_those_there_are(name):
    assert backend_names() == ("ort",)
    with pytest.raises(ConfigError, match=f"'{name}' is not available in this version.*available: auto, ort"):
        load_backend(MODEL, RuntimeConfig(backend=name))


def test_auto_takes_the_first_backend():
    with pytest.raises(ModelFileError, match=r"model\.onnx does not exist"):
        load_backend(MODEL, RuntimeConfig())


def test_the_registry_imports_no_runtime():
    code = "import sys, onnxgen.backends; sys.exit('onnxruntime' in sys.modules or 'onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
