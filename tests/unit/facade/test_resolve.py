import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

import onnxgen.builder
from checkpoints import CHECKPOINTS, write_checkpoint
from onnxgen.builder.options import BuildOptions
from onnxgen.catalog.layout import checkpoints_folder
from onnxgen.catalog.storage import Receipt, write_receipt
from onnxgen.errors import DownloadError, ModelFileError, ModelNotFoundError, OptionError
from onnxgen.facade.resolve import resolve_model
from onnxgen.foundations.disk import size_on_disk
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_model_folder import write_model_folder


@pytest.fixture
def config(tmp_path):
    return RuntimeConfig(cache_dir=tmp_path / "cache", offline=True)


@pytest.fixture
def checkpoint(tmp_path):
    return write_checkpoint(CHECKPOINTS["llama"], tmp_path / "check point é")


@pytest.fixture
def builds(monkeypatch):
    """The folders that were built, in order."""
    made = []
    real = onnxgen.builder.build

    def counted(source, output, *, options, progress):
        made.append(output)
        return real(source, output, options=options, progress=progress)

    monkeypatch.setattr(onnxgen.builder, "build", counted)
    return made


def pulled(config, checkpoint, name="smollm2", sha256=None):
    """Make a checkpoint look pulled under a name of the catalog."""
    from onnxgen.catalog import find

    folder = checkpoints_folder(config.cache_dir) / name
    folder.mkdir(parents=True)
    receipt = Receipt(name, "a test", str(checkpoint), size_on_disk(checkpoint), sha256 or find(name).sha256)
    write_receipt(folder, receipt)
    return folder


def test_a_model_folder_is_taken_as_it_is(tmp_path, config, builds):
    folder = write_model_folder(tmp_path / "model")
    assert resolve_model(folder, config=config) == folder
    assert resolve_model(str(folder), config=config) == folder
    assert builds == []


def test_a_checkpoint_is_built_once(checkpoint, config, builds):
    folder = resolve_model(checkpoint, config=config, precision="fp32")
    assert (folder / "genai_config.json").is_file()
    assert folder.parent == config.cache_dir / "models"
    assert folder.name.endswith("-fp32")
    assert resolve_model(str(checkpoint), config=config, precision="fp32") == folder
    assert builds == [folder]


def test_each_precision_has_its_own_folder(checkpoint, config, builds):
    assert resolve_model(checkpoint, config=config) != resolve_model(
        checkpoint, config=config, precision="fp32"
    )
    assert len(builds) == 2


def test_two_checkpoints_of_one_name_do_not_share_a_build(tmp_path, config):
    one = write_checkpoint(CHECKPOINTS["llama"], tmp_path / "a" / "model")
    two = write_checkpoint(CHECKPOINTS["qwen2"], tmp_path / "b" / "model")
    assert resolve_model(one, config=config) != resolve_model(two, config=config)


def test_a_changed_checkpoint_is_built_again(checkpoint, config, builds):
    folder = resolve_model(checkpoint, config=config)
    later = time.time() + 10
    os.utime(checkpoint / "config.json", (later, later))
    assert resolve_model(checkpoint, config=config) == folder
    assert len(builds) == 2
    resolve_model(checkpoint, config=config)
    assert len(builds) == 2


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest", "version", "options"])
def test_a_damaged_or_outdated_build_is_made_again(checkpoint, config, builds, damage):
    folder = resolve_model(checkpoint, config=config)
    manifest = folder / "onnxgen_build.json"
    content = json.loads(manifest.read_text())
    if damage == "cut":
        data = folder / "model.onnx.data"
        data.write_bytes(data.read_bytes()[:-1])
    elif damage == "gone":
        (folder / "tokenizer.json").unlink()
    elif damage == "manifest":
        manifest.write_text("{")
    elif damage == "version":
        manifest.write_text(json.dumps({**content, "builder": {"name": "onnxgen", "version": "0.0.1"}}))
    else:
        manifest.write_text(json.dumps({**content, "options": {**content["options"], "block_size": 64}}))
    assert resolve_model(checkpoint, config=config) == folder
    assert len(builds) == 2
    assert json.loads(manifest.read_text())["options"] == BuildOptions().to_json()


def test_several_at_once_build_once(checkpoint, config, builds):
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(resolve_model(checkpoint, config=config)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert len(builds) == 1


def test_a_name_is_found_and_built_under_its_name(checkpoint, config, builds):
    pulled(config, checkpoint)
    folder = resolve_model("smollm2", config=config)
    assert folder == config.cache_dir / "models" / "smollm2-int4"
    assert resolve_model("smollm2", config=config) == folder
    assert resolve_model("smollm2-int4", config=config) == folder
    assert builds == [folder]


def test_a_build_outlives_its_checkpoint(checkpoint, config, builds):
    import shutil

    kept = pulled(config, checkpoint)
    folder = resolve_model("smollm2", config=config)
    shutil.rmtree(kept)
    assert resolve_model("smollm2", config=config) == folder
    assert len(builds) == 1
    with pytest.raises(DownloadError, match="offline"):
        resolve_model("smollm2", config=config, precision="fp32")


def test_a_failed_build_leaves_nothing_and_can_be_tried_again(checkpoint, config, builds):
    shard = next(checkpoint.glob("*.safetensors"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelFileError):
        resolve_model(checkpoint, config=config)
    assert not builds[0].exists()
    shard.write_bytes(whole)
    assert resolve_model(checkpoint, config=config).is_dir()


def test_a_wrong_precision_is_told_before_anything_is_fetched(config):
    with pytest.raises(OptionError, match="precision is 'int5'"):
        resolve_model("smollm2", config=config, precision="int5")


def test_unknown_names_get_a_hint(config):
    with pytest.raises(ModelNotFoundError, match="did you mean 'smollm2'"):
        resolve_model("smolm2", config=config)


@pytest.mark.parametrize("missing", ["./nowhere", "a/b", "model.gguf", "~/nowhere", Path("nowhere")], ids=str)
def test_missing_paths_are_named(config, missing):
    with pytest.raises(ModelNotFoundError, match=f"{Path(missing).name} does not exist"):
        resolve_model(missing, config=config)


@pytest.mark.parametrize("name", ["", "x" * 5000, "a\0b"], ids=["empty", "long", "nul"])
def test_names_of_no_use_are_unknown(config, name):
    with pytest.raises(ModelNotFoundError):
        resolve_model(name, config=config)


def test_a_folder_with_neither_is_refused(tmp_path, config):
    (tmp_path / "stuff").mkdir()
    (tmp_path / "stuff" / "model.onnx").write_bytes(b"x")
    with pytest.raises(ModelFileError, match="an ONNX file but no metadata"):
        resolve_model(tmp_path / "stuff", config=config)
    with pytest.raises(ModelFileError, match="name its folder"):
        resolve_model(tmp_path / "stuff" / "model.onnx", config=config)


def test_names_cannot_leave_the_cache(config):
    for name in ("..", "."):
        with pytest.raises((ModelFileError, ModelNotFoundError)):
            resolve_model(f"{name}hidden", config=config)


@pytest.mark.parametrize("name", ["Some-Org/a.model_1", "https://hub.example/Some-Org/a.model_1"])
def test_repositories_without_a_prefix_get_a_hint(config, name):
    with pytest.raises(ModelNotFoundError, match=r"say hf:Some-Org/a\.model_1"):
        resolve_model(name, config=config)


def test_paths_may_be_bytes(tmp_path, config):
    folder = write_model_folder(tmp_path / "modèle")
    assert resolve_model(os.fsencode(folder), config=config) == folder


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have text for file names")
def test_paths_need_not_be_text(tmp_path, config):
    folder = write_model_folder(tmp_path / os.fsdecode(b"a\xffb"))
    assert resolve_model(folder, config=config) == folder


def test_a_wrong_precision_is_told_where_nothing_is_built_too(tmp_path, config):
    with pytest.raises(OptionError, match="precision is 'int3'"):
        resolve_model(write_model_folder(tmp_path / "model"), config=config, precision="int3")
