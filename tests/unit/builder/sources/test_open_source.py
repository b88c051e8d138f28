from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from gguf_by_hand import tiny_decoder, write_gguf
from onnxgen.builder.sources import open_source
from onnxgen.builder.sources.gguf_source import GgufSource
from onnxgen.builder.sources.safetensors_folder import SafetensorsFolder
from onnxgen.errors import CheckpointError, ModelNotFoundError


def gguf(path):
    return write_gguf(path, *tiny_decoder("llama", np.random.default_rng(0)))


def test_a_file_is_a_gguf_whatever_its_name(tmp_path):
    assert isinstance(open_source(gguf(tmp_path / "m.gguf")), GgufSource)
    assert isinstance(open_source(gguf(tmp_path / "sha256-1234")), GgufSource)


def test_a_folder_is_a_hugging_face_checkpoint(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["X"]}))
    save_file({"a": np.ones(1, np.float32)}, tmp_path / "model.safetensors")
    gguf(tmp_path / "m.gguf")
    assert isinstance(open_source(tmp_path), SafetensorsFolder)


def test_a_folder_with_one_gguf_is_that_file(tmp_path):
    path = gguf(tmp_path / "m.gguf")
    assert open_source(tmp_path).path == path
    gguf(tmp_path / "n.gguf")
    with pytest.raises(CheckpointError, match=r"holds 2 GGUF files; name one of them: m.gguf, n.gguf"):
        open_source(tmp_path)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(ModelNotFoundError, match=r"nowhere does not exist"):
        open_source(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"neither a config.json .* nor a GGUF file"):
        open_source(tmp_path)


def test_one_file_of_a_folder_points_to_the_folder(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"x")
    with pytest.raises(CheckpointError, match="name the folder it is in"):
        open_source(file)


def test_what_is_built_already_is_no_checkpoint(tmp_path):
    (tmp_path / "genai_config.json").write_text("{}")
    with pytest.raises(CheckpointError, match="is a model folder, which is built already"):
        open_source(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="is a graph, not a checkpoint"):
        open_source(tmp_path / "model.onnx")
