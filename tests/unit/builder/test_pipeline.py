"""The build as a whole: what appears, when, and what is left behind when it does not."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Self

import numpy as np
import onnx
import pytest
import yaml
from safetensors.numpy import load_file, save_file

from checkpoints import CHECKPOINTS, write_checkpoint
from memory_source import random_source
from onnxgen.builder import BuildOptions, build
from onnxgen.errors import BuildError, ModelNotFoundError, OptionError, UnsupportedArchitectureError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(CHECKPOINTS["llama"], tmp_path / "Häuser 模型")


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*"))}


class _Spy:
    """A progress that adds up what it is told, and fails when asked to."""

    def __init__(self, fail_after: int | None = None, error: BaseException | None = None) -> None:
        self.total: int | None = None
        self.done = 0
        self._fail_after, self._error = fail_after, error

    def start(self, description: str, *, total: int | None, unit: str = "bytes") -> _Spy:
        self.total = total
        return self

    def advance(self, amount: int) -> None:
        self.done += amount
        if self._fail_after is not None and self.done > self._fail_after and self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def test_a_folder_holds_model_configuration_tokenizer_and_manifest(checkpoint: Path, tmp_path: Path) -> None:
    report = build(checkpoint, tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").iterdir()}
    assert names >= {
        "model.onnx",
        "model.onnx.data",
        "genai_config.json",
        "inference_metadata.yaml",
        "onnxgen_build.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "generation_config.json",
    }
    assert report.size_bytes == sum(path.stat().st_size for path in (tmp_path / "model").iterdir())
    assert report.architecture == "LlamaForCausalLM"


def test_the_manifest_hashes_every_other_file(checkpoint: Path, tmp_path: Path) -> None:
    build(checkpoint, tmp_path / "model")
    found = _files(tmp_path / "model")
    manifest = json.loads(found.pop("onnxgen_build.json"))
    assert {file["name"]: file["sha256"] for file in manifest["files"]} == {
        name: hashlib.sha256(content).hexdigest() for name, content in found.items()
    }
    assert manifest["source"]["name"] == "Häuser 模型"
    assert str(tmp_path) not in json.dumps(manifest)


@pytest.mark.parametrize("precision", ["int4", "bf16"])
def test_building_twice_gives_the_same_bytes(precision: str, checkpoint: Path, tmp_path: Path) -> None:
    options = BuildOptions(precision=precision)
    build(checkpoint, tmp_path / "model", options=options)
    first = _files(tmp_path / "model")
    build(checkpoint, tmp_path / "model", options=options)
    assert _files(tmp_path / "model") == first
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["llama", "llama-untied", "gemma3", "phi3-longrope"])
@pytest.mark.parametrize("precision", ["int4", "fp32"])
def test_every_byte_of_the_data_belongs_to_a_tensor_or_its_alignment(
    name: str, precision: str, tmp_path: Path
) -> None:
    checkpoint = write_checkpoint(CHECKPOINTS[name], tmp_path / "checkpoint")
    build(checkpoint, tmp_path / "model", options=BuildOptions(precision=precision))
    model = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False)
    spans = set()
    for tensor in model.graph.initializer:
        place = {entry.key: entry.value for entry in tensor.external_data}
        if place:
            assert place["location"] == "model.onnx.data"
            spans.add((int(place["offset"]), int(place["length"])))
    data = (tmp_path / "model" / "model.onnx.data").read_bytes()
    end = 0
    for start, length in sorted(spans):
        gap = data[end:start]
        assert 0 <= len(gap) < 4096 and not any(gap)
        end = start + length
    assert end == len(data)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError("disk full")])
def test_an_interrupted_build_leaves_the_output_as_it_was(
    error: BaseException, checkpoint: Path, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "model"
    with pytest.raises(type(error)):
        build(checkpoint, target, progress=_Spy(fail_after=20_000, error=error))
    assert list((tmp_path / "out").iterdir()) == []
    build(checkpoint, target)
    before = _files(target)
    with pytest.raises(type(error)):
        build(checkpoint, target, options=BuildOptions("fp32"), progress=_Spy(20_000, error))
    assert _files(target) == before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model"]


@pytest.mark.parametrize("precision", ["int4", "int8", "fp16", "fp32"])
def test_progress_ends_near_the_total_it_announced(precision: str, checkpoint: Path, tmp_path: Path) -> None:
    spy = _Spy()
    build(checkpoint, tmp_path / "model", options=BuildOptions(precision), progress=spy)
    assert spy.total is not None and abs(spy.done - spy.total) < 0.02 * spy.total


def test_a_folder_of_other_things_is_not_replaced(checkpoint: Path, tmp_path: Path) -> None:
    target = tmp_path / "thesis"
    target.mkdir()
    build(checkpoint, target)  # empty: taken
    for name in ("genai_config.json", "inference_metadata.yaml", "onnxgen_build.json"):
        (target / name).unlink()
    with pytest.raises(BuildError, match="thesis holds files and is not a model folder"):
        build(checkpoint, target)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(BuildError, match="is a file"):
        build(checkpoint, file)


def test_a_full_disk_is_noticed_before_anything_is_written(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 9, 1_000_000))
    with pytest.raises(BuildError, match=r"the int4 model needs [\d.]+ MB in .*model, 1 MB are free"):
        build(checkpoint, tmp_path / "deep" / "model")
    assert not (tmp_path / "deep").exists()


def test_unknown_architectures_are_named_with_the_known_ones(tmp_path: Path) -> None:
    config = {**CHECKPOINTS["llama"].config, "architectures": ["LlamaForCausalLN"]}
    source = random_source(config, tmp_path / "source", 1)
    with pytest.raises(
        UnsupportedArchitectureError,
        match=r"'LlamaForCausalLN' is not supported; did you mean.*Qwen3ForCausalLM",
    ):
        build(source, tmp_path / "model")
    with pytest.raises(ModelNotFoundError):
        build(tmp_path / "nowhere", tmp_path / "model")


def test_layers_and_context_can_be_cut(tmp_path: Path) -> None:
    config = CHECKPOINTS["gemma3"].config
    source = random_source(config, tmp_path / "source", 1)
    build(source, tmp_path / "model", options=BuildOptions("fp32", num_layers=1, context_length=32))
    document = json.loads((tmp_path / "model" / "genai_config.json").read_text())
    assert document["model"]["decoder"]["num_hidden_layers"] == 1
    assert document["model"]["context_length"] == document["search"]["max_length"] == 32
    with pytest.raises(OptionError, match="num_layers=99"):
        build(source, tmp_path / "other", options=BuildOptions(num_layers=99))
    with pytest.raises(OptionError, match="context_length=999 is longer than the model's"):
        build(source, tmp_path / "other", options=BuildOptions(context_length=999))


def test_the_metadata_names_the_graph_as_it_is(checkpoint: Path, tmp_path: Path) -> None:
    build(checkpoint, tmp_path / "model")
    document = yaml.safe_load((tmp_path / "model" / "inference_metadata.yaml").read_text(encoding="utf-8"))
    graph = onnx.load(tmp_path / "model" / "model.onnx", load_external_data=False).graph
    io = document["model"]["io"]
    assert [value.name for value in graph.input] == [
        io["token_input"],
        io["attention_mask_input"],
        *io["kv_inputs"],
    ]
    assert {value.name for value in graph.output} == {io["logits_output"], *io["kv_outputs"]}


def test_importing_the_builder_imports_no_onnx() -> None:
    code = "import sys, onnxgen.builder; print([n for n in ('onnx', 'onnx_ir', 'onnxruntime') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("precision", ["int4", "int8", "fp16", "fp32"])
@pytest.mark.parametrize("tensor", ["model.layers.1.mlp.down_proj.weight", "model.norm.weight"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused_by_name(
    precision: str, tensor: str, value: float, checkpoint: Path, tmp_path: Path
) -> None:
    weights = load_file(checkpoint / "model.safetensors")
    weights[tensor].reshape(-1)[3] = value
    save_file(weights, checkpoint / "model.safetensors")
    with pytest.raises(BuildError, match=tensor.replace(".", r"\.")):
        build(checkpoint, tmp_path / "out", options=BuildOptions.from_extra(precision))
    assert not (tmp_path / "out").exists()


def test_paths_may_be_text(checkpoint: Path, tmp_path: Path) -> None:
    assert build(str(checkpoint), str(tmp_path / "out")).output == tmp_path / "out"


def test_an_output_below_a_file_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BuildError, match=r"file is not a folder"):
        build(checkpoint, tmp_path / "file" / "out")
