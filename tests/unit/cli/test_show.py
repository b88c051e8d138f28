import json

import pytest

import checkpoints
from onnxgen.builder import BuildOptions, build


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return checkpoints.write_checkpoint(
        checkpoints.CHECKPOINTS["llama"], tmp_path_factory.mktemp("checkpoint")
    )


@pytest.fixture(scope="module")
def model(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-int4"
    build(checkpoint, folder, options=BuildOptions(block_size=16))
    return folder


def shown(onnxgen, what):
    result = onnxgen("show", what, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_model_folder_shows_what_it_is(onnxgen, model):
    config = checkpoints.CHECKPOINTS["llama"].config
    facts = shown(onnxgen, model)["model"]
    assert facts["kind"] == "model folder"
    assert facts["context_length"] == config["max_position_embeddings"]
    assert facts["layers"] == config["num_hidden_layers"]
    assert facts["vocabulary"] == config["vocab_size"]
    assert facts["build"]["options"]["precision"] == "int4"
    assert facts["special_tokens"]["eos"]
    matrices = facts["graph"]["matrices"]
    assert matrices["mlp.down_proj"].startswith(f"{config['num_hidden_layers']} x int4 block 16 symmetric")
    assert facts["notes"] == []


def test_a_model_folder_shows_which_backend_would_run_it(onnxgen, model):
    backend = shown(onnxgen, model)["model"]["backend"]
    assert backend["name"] == "native"
    assert "every node" in backend["reason"]


def test_the_plan_of_a_model_folder_is_that_of_the_native_backend(onnxgen, model):
    text = onnxgen("show", model, "--plan").stdout
    assert text.splitlines()[0].split() == ["rows", "call", "result", "arguments", "nodes"]
    assert "epilogue=silu" in text
    assert json.loads(onnxgen("show", model, "--plan", "--json").stdout) == {"plan": text.rstrip("\n")}
    assert "def plan" in onnxgen("show", model, "--plan", "--providers", "cpu").stdout


def test_a_model_folder_as_text(onnxgen, model):
    text = onnxgen("show", model).stdout
    assert "kind: model folder" in text
    assert "  mlp.down_proj: " in text
    assert "None" not in text


def test_a_checkpoint_shows_what_it_is(onnxgen, checkpoint):
    config = checkpoints.CHECKPOINTS["llama"].config
    facts = shown(onnxgen, checkpoint)["model"]
    assert facts["kind"] == "Hugging Face folder"
    assert facts["architecture"] == "LlamaForCausalLM"
    assert facts["config"]["hidden_size"] == config["hidden_size"]
    assert facts["tensors"]["mlp.down_proj"] == f"{config['num_hidden_layers']} x F32"


def test_a_name_shows_the_catalog_and_what_is_here(onnxgen, model, tmp_path):
    assert list(shown(onnxgen, "smollm2")) == ["catalog"]
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "smollm2-int4").symlink_to(model)
    facts = shown(onnxgen, "smollm2")
    assert list(facts) == ["catalog", "model smollm2-int4"]
    assert facts["catalog"]["licence"] == "Apache-2.0"
    assert list(shown(onnxgen, "smollm2-int4")) == ["model smollm2-int4"]


def test_what_is_not_known_is_an_error_with_a_hint(onnxgen):
    result = onnxgen("show", "smolm2")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "did you mean 'smollm2'" in result.stderr


def test_a_broken_folder_is_an_error(onnxgen, tmp_path):
    (tmp_path / "genai_config.json").write_text("{")
    result = onnxgen("show", tmp_path)
    assert result.exit_code == 1 and "genai_config.json" in result.stderr
