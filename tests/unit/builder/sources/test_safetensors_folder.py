from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from onnxgen.builder.sources.safetensors_folder import SafetensorsFolder
from onnxgen.errors import CheckpointError

CONFIG = {"architectures": ["LlamaForCausalLM"], "hidden_size": 8}


def folder(path: Path, tensors: dict[str, np.ndarray] | None = None, config: object = CONFIG) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    if tensors is not None:
        save_file(tensors, path / "model.safetensors")
    return path


def sharded(path: Path, shards: dict[str, dict[str, np.ndarray]], *, index: bool = True) -> Path:
    folder(path)
    for file, tensors in shards.items():
        save_file(tensors, path / file)
    if index:
        names = {name: file for file, tensors in shards.items() for name in tensors}
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return path


ONE, TWO = {"a": np.ones(3, np.float32)}, {"b": np.full((2, 2), 2, np.float16)}
FILES = {"model-00001-of-00002.safetensors": ONE, "model-00002-of-00002.safetensors": TWO}


@pytest.mark.parametrize(
    ("dtype", "name"), [(np.float32, "F32"), (np.float16, "F16"), (ml_dtypes.bfloat16, "BF16")]
)
def test_floats_come_as_they_are_stored(tmp_path, dtype, name):
    rng = np.random.default_rng()
    tensors = {f"t{rank}": rng.standard_normal((3, 5, 2)[:rank]).astype(dtype) for rank in range(4)}
    source = SafetensorsFolder(folder(tmp_path / "Željko 模型 v1", tensors))
    assert source.names == set(tensors)
    for key, value in tensors.items():
        loaded = source.load(key)
        assert loaded.dtype == dtype and loaded.shape == value.shape == source.shape(key)
        assert np.array_equal(loaded, value)
        assert source.stored_type(key) == name
        assert source.load_blocks(key) is None
    source.close()
    source.close()


def test_what_is_loaded_belongs_to_the_caller(tmp_path):
    source = SafetensorsFolder(folder(tmp_path, {"a": np.ones(4, np.float32)}))
    source.load("a")[:] = 7
    assert source.load("a").tolist() == [1, 1, 1, 1]


def test_the_configuration_is_passed_through(tmp_path):
    config = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"hidden_size": 8}}
    source = SafetensorsFolder(folder(tmp_path, ONE, config))
    assert source.config == config and source.path == tmp_path


@pytest.mark.parametrize("index", [True, False])
def test_shards_are_one_checkpoint(tmp_path, index):
    source = SafetensorsFolder(sharded(tmp_path, FILES, index=index))
    assert source.names == {"a", "b"}
    assert source.load("a").tolist() == [1, 1, 1] and source.load("b").dtype == np.float16


@pytest.mark.parametrize(
    ("stored", "canonical"),
    [
        ("language_model.model.layers.0.x", "model.layers.0.x"),
        ("model.language_model.layers.0.x", "model.layers.0.x"),
        ("model.language_model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("model.layers.0.x", "model.layers.0.x"),
        ("model.vision_tower.x", "model.vision_tower.x"),
        ("layers.0.x", "model.layers.0.x"),
        ("embed_tokens.weight", "model.embed_tokens.weight"),
    ],
)
def test_decoders_inside_other_models_have_plain_names(tmp_path, stored, canonical):
    source = SafetensorsFolder(folder(tmp_path, {stored: np.ones(2, np.float32)}))
    assert source.names == {canonical}
    assert source.load(canonical).tolist() == [1, 1]


def test_two_tensors_of_one_name_are_refused(tmp_path):
    names = ("model.language_model.norm.weight", "model.norm.weight")
    path = folder(tmp_path, {name: np.ones(1, np.float32) for name in names})
    with pytest.raises(CheckpointError, match=r"both 'model\.norm\.weight'"):
        SafetensorsFolder(path)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint8])
def test_other_types_are_refused_when_loaded(tmp_path, dtype):
    source = SafetensorsFolder(folder(tmp_path, {"a": np.ones(2, dtype), "b": np.ones(2, np.float32)}))
    assert source.load("b").tolist() == [1, 1]
    with pytest.raises(
        CheckpointError, match=r"model.safetensors: tensor 'a' is stored as [IFU]\d+; .* F32, F16, BF16"
    ):
        source.load("a")


@pytest.mark.parametrize("method", ["load", "load_blocks", "shape", "stored_type"])
def test_a_missing_tensor_is_said_with_a_near_one(tmp_path, method):
    source = SafetensorsFolder(folder(tmp_path, {"model.norm.weight": np.ones(2, np.float32)}))
    with pytest.raises(CheckpointError, match=r"no tensor 'model.norm.weigh' among 1; did you mean"):
        getattr(source, method)("model.norm.weigh")


def test_a_shard_cut_off_anywhere_says_so(tmp_path):
    path = folder(tmp_path, {"a": np.ones((2, 3), np.float32), "b": np.ones(2, np.float16)})
    shard = path / "model.safetensors"
    raw = shard.read_bytes()
    for length in range(len(raw)):
        shard.write_bytes(raw[:length])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            SafetensorsFolder(path)
    with pytest.raises(CheckpointError, match=f"has {len(raw) - 1} bytes, its header says {len(raw)}"):
        SafetensorsFolder(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(100), "header alone should take"),
        (bytes(16), "no safetensors header"),
        ((2).to_bytes(8, "little") + b"[]", "no safetensors header"),
        ((9).to_bytes(8, "little") + b'{"a": 1}\n', "header is broken"),
        ((2).to_bytes(8, "little") + b"\xff\xfe", "no safetensors header"),
        ((2).to_bytes(8, "little") + b"{}trailing", "not a valid safetensors file"),
    ],
)
def test_what_is_no_safetensors_file_is_said(tmp_path, content, message):
    path = folder(tmp_path)
    (path / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFolder(path)


def test_a_file_that_shrinks_after_opening_is_said(tmp_path):
    path = folder(tmp_path, {"a": np.ones(4, np.float32)})
    source = SafetensorsFolder(path)
    shard = path / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:-5])
    with pytest.raises(CheckpointError, match="'a' has 8 bytes, expected 16"):
        source.load("a")
    shard.unlink()
    with pytest.raises(CheckpointError, match="cannot read tensor 'a'"):
        source.load("a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "config.json does not exist"),
        ("", "config.json is empty"),
        ("{", "config.json is not valid JSON"),
        ("[]", "config.json holds an array, expected an object"),
        ('{"quantization_config": {"quant_method": "gptq"}}', r"is quantized \(gptq\)"),
    ],
)
def test_a_broken_configuration_is_said(tmp_path, content, message):
    path = folder(tmp_path, ONE)
    (path / "config.json").unlink()
    if content is not None:
        (path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message):
        SafetensorsFolder(path)


def test_a_tensor_in_another_shard_than_the_index_says(tmp_path):
    path = sharded(tmp_path, FILES)
    index = path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["c"] = "model-00001-of-00002.safetensors"
    index.write_text(json.dumps(content))
    with pytest.raises(
        CheckpointError, match=r"tensor 'c' is in model-00001-of-00002.safetensors, but it is not"
    ):
        SafetensorsFolder(path)


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    path = sharded(tmp_path, dict.fromkeys(FILES, ONE), index=False)
    with pytest.raises(CheckpointError, match="tensor 'a' is in both"):
        SafetensorsFolder(path)
