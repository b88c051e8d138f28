from __future__ import annotations

import json

import pytest

from onnxgen.builder.sources.shards import list_shards
from onnxgen.errors import CheckpointError

INDEX = "model.safetensors.index.json"


def touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def write_index(folder, weight_map):
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))


def names(folder):
    return [file.name for file in list_shards(folder).files]


def test_the_index_comes_first(tmp_path):
    touch(tmp_path, "model.safetensors", "x.safetensors", "consolidated.safetensors")
    write_index(tmp_path, {"a": "x.safetensors", "b": "x.safetensors"})
    shards = list_shards(tmp_path)
    assert [file.name for file in shards.files] == ["x.safetensors"]
    assert {name: file.name for name, file in shards.index.items()} == dict.fromkeys("ab", "x.safetensors")


def test_without_an_index_the_usual_names_count(tmp_path):
    touch(tmp_path, "weights.safetensors")
    assert names(tmp_path) == ["weights.safetensors"]
    touch(tmp_path, "model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors")
    assert names(tmp_path) == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    touch(tmp_path, "model.safetensors")
    assert names(tmp_path) == ["model.safetensors"]


def test_missing_numbers_are_named(tmp_path):
    touch(tmp_path, "model-00002-of-00004.safetensors", "model-00003-of-00004.safetensors")
    with pytest.raises(CheckpointError, match=r"has 2 of 4 shards; missing are numbers 1, 4"):
        list_shards(tmp_path)


def test_files_that_may_not_belong_together_are_named(tmp_path):
    touch(tmp_path, "a.safetensors", "b.safetensors")
    with pytest.raises(
        CheckpointError, match=r"which of these belong together: a.safetensors, b.safetensors"
    ):
        list_shards(tmp_path)
    touch(tmp_path, "m-1-of-1.safetensors", "n-1-of-2.safetensors")
    with pytest.raises(CheckpointError, match="which of these belong together: m-1-of-1"):
        list_shards(tmp_path)


def test_a_folder_without_weights_says_what_it_has(tmp_path):
    with pytest.raises(CheckpointError, match=r"has no \*\.safetensors files$"):
        list_shards(tmp_path)
    touch(tmp_path, "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model.bin holds pickled weights"):
        list_shards(tmp_path)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": {}}', '{"weight_map": ["a"]}'])
def test_an_index_without_a_map_is_refused(tmp_path, content):
    (tmp_path / INDEX).write_text(content)
    with pytest.raises(CheckpointError, match="'weight_map' is missing or empty"):
        list_shards(tmp_path)


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ("gone.safetensors", "gone.safetensors does not exist"),
        ("../outside.safetensors", "leaves the model folder"),
        ("/etc/passwd", "is absolute"),
        (7, "is in 7, expected a file name"),
    ],
)
def test_an_index_that_points_elsewhere_is_refused(tmp_path, shard, message):
    (tmp_path / "outside.safetensors").write_bytes(b"x")
    folder = tmp_path / "model"
    folder.mkdir()
    write_index(folder, {"a": shard})
    with pytest.raises(CheckpointError, match=message):
        list_shards(folder)


def test_a_link_out_of_the_folder_is_refused_and_one_into_a_hub_cache_is_not(tmp_path):
    blob = tmp_path / "cache" / "blobs" / "abc"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x")
    snapshot = tmp_path / "cache" / "snapshots" / "rev"
    snapshot.mkdir(parents=True)
    (snapshot / "s.safetensors").symlink_to(blob)
    write_index(snapshot, {"a": "s.safetensors"})
    assert names(snapshot) == ["s.safetensors"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "s.safetensors").symlink_to(blob)
    write_index(other, {"a": "s.safetensors"})
    with pytest.raises(CheckpointError, match="outside the model folder"):
        list_shards(other)
