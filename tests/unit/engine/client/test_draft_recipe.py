"""An engine with a draft model of a folder, made here or in another process."""

import json
import shutil

import numpy as np
import onnx
import pytest

import tiny_tokenizer
from checkpoints import CHECKPOINTS, prompt_ids, write_checkpoint
from heard_events import Heard
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.client import ModelRecipe, in_process, in_subprocess
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.request import EngineRequest
from onnxgen.engine.speculation.draft_options import DraftModelOptions
from onnxgen.engine.speculation.of_models import DraftModelRecipe
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CapabilityError, ConfigError
from onnxgen.foundations.runtime_config import RuntimeConfig

NEW = 12
ALWAYS = Speculation("draft_model", max_draft_tokens=3, adaptive=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    checkpoint = write_checkpoint(CHECKPOINTS["llama"], folder / "checkpoint")
    build(checkpoint, folder / "model", options=BuildOptions(precision="fp32"))
    tiny_tokenizer.write_tokenizer(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def small(folder):
    """The same model with coarser weights."""
    small = folder.parent / "small"
    build(folder.parent / "checkpoint", small, options=BuildOptions(precision="int4", block_size=32))
    tiny_tokenizer.write_tokenizer(small)
    return small


def recipe(folder, draft, **engine):
    runtime = RuntimeConfig(threads=1, cache_dir=folder.parent / "cache")
    options = DraftModelOptions(cache_tokens=512, min_confidence=0.0)
    drafts = () if draft is None else (DraftModelRecipe(draft.folder, runtime, options),)
    return ModelRecipe(folder, runtime, EngineConfig(cache_tokens=512, **engine), proposers=drafts)


class Draft:
    def __init__(self, folder):
        self.folder = folder


def answers(client, prompt, **request):
    heard = Heard()
    number = client.submit(EngineRequest(prompt, max_new_tokens=NEW, ignore_eos=True, **request), heard)
    heard.end(number)
    return heard.tokens(number), heard.events[-1].usage


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_a_draft_model_of_another_folder_is_loaded_where_the_engine_is(make, folder, small):
    prompt = prompt_ids(CHECKPOINTS["llama"], 21)
    with make(recipe(folder, None)) as client:
        client.start()
        plain, usage = answers(client, prompt)
        assert usage.draft_tokens == 0
        with pytest.raises(CapabilityError, match="draft_model"):
            answers(client, prompt, speculation=ALWAYS)
    with make(recipe(folder, Draft(small), speculation=ALWAYS)) as client:
        client.start()
        found, usage = answers(client, prompt)
    assert found == plain
    assert 0 < usage.accepted_draft_tokens <= usage.draft_tokens


def test_a_draft_model_of_another_vocabulary_is_told_by_start(folder, tmp_path):
    other = tmp_path / "other"
    build(folder.parent / "checkpoint", other, options=BuildOptions(precision="fp32"))
    tiny_tokenizer.write_tokenizer(other)
    file = other / "tokenizer.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    vocab = document["model"]["vocab"]
    vocab["the"], vocab["in"] = vocab["in"], vocab["the"]
    file.write_text(json.dumps(document), encoding="utf-8")
    with (
        in_process(recipe(folder, Draft(other))) as client,
        pytest.raises(ConfigError, match="is 'the' in one and 'in' in the other"),
    ):
        client.start()


def test_a_folder_without_a_draft_section_has_no_draft_model_of_its_own(folder):
    with (
        in_process(recipe(folder, Draft(None))) as client,
        pytest.raises(ConfigError, match="no draft model of its own"),
    ):
        client.start()


def test_the_decoder_that_a_folder_names_as_its_draft_is_used(folder, small, tmp_path):
    both = tmp_path / "both"
    shutil.copytree(folder, both)
    for file in small.iterdir():
        if file.suffix in (".onnx", ".data") or ".onnx" in file.name:
            shutil.copy(file, both / file.name.replace("model.onnx", "draft.onnx"))
    config = both / "genai_config.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    decoder = json.loads((small / "genai_config.json").read_text(encoding="utf-8"))["model"]["decoder"]
    document["model"]["draft"] = {**decoder, "filename": "draft.onnx"}
    config.write_text(json.dumps(document), encoding="utf-8")
    _point_at_own_data(both / "draft.onnx")
    prompt = np.array(prompt_ids(CHECKPOINTS["llama"], 17)).tolist()
    with in_process(recipe(both, Draft(None), speculation=ALWAYS)) as client:
        client.start()
        _, usage = answers(client, prompt)
    assert usage.draft_tokens > 0


def _point_at_own_data(path):
    """External data lies beside the graph under the graph's own name."""
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = entry.value.replace("model.onnx", "draft.onnx")
    onnx.save(model, path)
